"""Errors of the commands, and their wording."""

import re

# Errors of the commands.


class CommandError(Exception):
    """One sentence with a hint, and the exit code: 2 for wrong usage, 3 for an error in the environment."""

    def __init__(self, message: str, code: int = 2) -> None:
        super().__init__(message)
        self.code = code


# The wording of invalid values: plain words instead of those of pydantic and typer.

_WORDINGS = tuple(
    (re.compile(theirs), ours)
    for theirs, ours in (
        (r"Input should be a valid integer.*", "must be a whole number"),
        (r"Input should be a valid number.*", "must be a number"),
        (r"Input should be a valid boolean.*", "must be true or false"),
        (r"Input should be a valid (tuple|list|set).*", "must be a list"),
        (r"Input should be (an object|(a valid )?(dictionary|mapping)).*", "must be a mapping, such as {key: value}"),
        (r"Input should be greater than or equal to (.+)", r"must be at least \1"),
        (r"Input should be less than or equal to (.+)", r"must be at most \1"),
        (r"Input should be greater than (.+)", r"must be above \1"),
        (r"Input should be less than (.+)", r"must be below \1"),
        (r"Input should be a valid (.+)", r"must be a \1"),
        (r"Input should be (.+)", r"must be \1"),
        (
            r"Input tag (.+) found using '(\w+)' does not match any of the expected tags: (.+)",
            r"unknown \2 \1; valid: \3",
        ),
        (r"\w+ should have (at (?:least|most) \d+ (?:item|character)s?).*", r"must have \1"),
        (r"(?:Value error, )?('.+?') is not one of (.+)", r"must be one of \2, got \1"),
        (r"Field required|Missing required argument", "this field is required"),
        (r"Unexpected keyword argument|Extra inputs are not permitted", "unknown field"),
        (r"Value error, (.+)", r"\1"),
    )
)


def plain(message: str) -> str:
    """The message of pydantic about one value, in words that follow the name of the value: `must be a number`."""
    for theirs, ours in _WORDINGS:
        if found := theirs.fullmatch(message):
            return found.expand(ours)
    return f"{message[:1].lower()}{message[1:]}"
