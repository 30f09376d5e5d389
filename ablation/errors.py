"""How things end: exit codes, the exception that a user's mistake raises, and the errors of a failing disk."""

import errno

DONE, SOME_FAILED, USAGE, INTERRUPTED = 0, 1, 2, 3  # exit codes; the README explains them

STORAGE_ERRNOS = frozenset(
    {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.EACCES, errno.EPERM, errno.ESTALE}
)


class UserError(Exception):
    """A mistake that the user can mend: the message says what is wrong, where, and what would be right."""
