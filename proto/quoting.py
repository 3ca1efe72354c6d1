"""Texts of others in our own sentences: one printable line, of a length that can be read."""

QUOTE_LIMIT = 200
"""Characters of a name in a line of the log; a device's or driver's name in Kubernetes has at most 253."""


def one_line(text: str, limit: int = QUOTE_LIMIT) -> str:
    """The text, with what cannot be printed written as Python does, and cut after `limit` characters.

    What is cut says how long the text was. An ordinary text stays as it is.
    """
    printable = "".join(c if c.isprintable() else repr(c)[1:-1] for c in text[:limit])
    if len(text) <= limit and len(printable) <= limit:
        return printable
    return f"{printable[:limit]}... ({len(text)} characters)"
