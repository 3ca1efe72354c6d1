"""What a program with fakes says to who started it, and ends with."""


class CommandError(Exception):
    """One sentence with a hint, and the exit code: 2 for what was asked, 3 for what is around."""

    def __init__(self, message: str, code: int = 2) -> None:
        super().__init__(message)
        self.code = code
