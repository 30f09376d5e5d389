"""The one exception that a user's mistake raises."""


class UserError(Exception):
    """A mistake that the user can mend: the message says what is wrong, where, and what would be right."""
