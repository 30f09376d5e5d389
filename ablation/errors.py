"""The one exception that a user's mistake raises, and what tells a failing disk from a failing program."""

import errno

STORAGE_ERRNOS = frozenset(
    {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.EACCES, errno.EPERM, errno.ESTALE}
)


class UserError(Exception):
    """A mistake that the user can mend: the message says what is wrong, where, and what would be right."""
