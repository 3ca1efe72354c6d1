"""Quotes foreign text in messages and on the terminal: printable, and with a limited length."""

QUOTE_LIMIT = 200
"""Characters of a name in a line of the log; a device's or driver's name in Kubernetes has at most 253."""


def one_line(text: str, limit: int = QUOTE_LIMIT) -> str:
    """The text with escaped unprintable characters, truncated after `limit` characters.

    A truncated text includes its full length. An ordinary text is unchanged.
    """
    shown = printable(text[:limit])
    if len(text) <= limit and len(shown) <= limit:
        return shown
    return f"{shown[:limit]}... ({len(text)} characters)"


def quoted(value: object) -> str:
    """A value from a file for a message, on one line; `nothing` for a missing value."""
    return "nothing" if value is None else one_line(repr(value))


def printable(text: str) -> str:
    """The whole text with escaped unprintable characters, so it cannot send control sequences to a terminal."""
    return text if text.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def printable_lines(text: str) -> str:
    """The same, with line breaks kept."""
    return "\n".join(map(printable, text.split("\n")))
