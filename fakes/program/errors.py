"""Errors of the commands."""


class CommandError(Exception):
    """One sentence with a hint, and the exit code: 2 for wrong usage, 3 for an error in the environment."""

    def __init__(self, message: str, code: int = 2) -> None:
        super().__init__(message)
        self.code = code
