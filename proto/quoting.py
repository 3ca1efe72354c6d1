"""Texts of others in our own sentences and on the screen: printable, and of a length that can be read."""

QUOTE_LIMIT = 200
"""Characters of a name in a line of the log; a device's or driver's name in Kubernetes has at most 253."""


def one_line(text: str, limit: int = QUOTE_LIMIT) -> str:
    """The text, with what cannot be printed written as Python does, and cut after `limit` characters.

    What is cut says how long the text was. An ordinary text stays as it is.
    """
    shown = printable(text[:limit])
    if len(text) <= limit and len(shown) <= limit:
        return shown
    return f"{shown[:limit]}... ({len(text)} characters)"


def printable(text: str) -> str:
    """The whole text, with what cannot be printed written as Python does: a terminal takes none of it for an order."""
    return text if text.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def printable_lines(text: str) -> str:
    """The same with its line breaks left, for texts of ours that have several lines."""
    return "\n".join(map(printable, text.split("\n")))
