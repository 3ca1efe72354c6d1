"""Suggestions for unknown names in error messages."""

from collections.abc import Iterable, Sequence

_MAX_LISTED = 24
"""Names that a message lists."""
_MAX_COMPARED = 2000
"""Names that are compared, from the start of the list."""
_MAX_LENGTH = 200
"""Characters of a name that are compared."""
_MIN_MARGIN = 0.05
"""Minimum difference between the similarity of the best and the second name, if the message lists all names."""


def near(name: str, known: Iterable[str], listed_in: str = "") -> str:
    """The end of an error message about an unknown name: a suggestion, if one is similar, and the known names.

    `listed_in`: a page that lists all names; it replaces a long list of names.
    """
    names = list(known)
    if not names:
        return "none exist"
    if len(names) <= _MAX_LISTED:
        suggestion = _closest(name, names)
        listed = f"valid: {', '.join(names)}"
        return f"did you mean {suggestion}? {listed}" if suggestion and len(names) > 1 else listed
    from difflib import get_close_matches  # slow import, needed only for errors

    close = get_close_matches(name[:_MAX_LENGTH], names[:_MAX_COMPARED], 3)
    if close:
        return f"did you mean {' or '.join(close)}?"
    if listed_in:
        return f"{listed_in} lists all names"
    return f"valid: {', '.join(names[:_MAX_LISTED])} and {len(names) - _MAX_LISTED} more"


def with_hint(message: str, hint: str) -> str:
    """An error message with what to do. A message can end with a suggestion, which is a question."""
    return f"{message}{'' if message.endswith('?') else ';'} {hint}" if hint else message


def _closest(name: str, names: Sequence[str]) -> str:
    """The most similar name, by a margin; empty if there is none.

    A name that differs only in its number is not a typing error.
    """
    from difflib import SequenceMatcher, get_close_matches

    close = get_close_matches(given := name[:_MAX_LENGTH], names, 2)
    ratios = [*(SequenceMatcher(None, other, given).ratio() for other in close), 0.0]
    is_clear = bool(close) and ratios[0] > ratios[1] + _MIN_MARGIN
    return close[0] if is_clear and _without_numbers(close[0]) != _without_numbers(given) else ""


def _without_numbers(name: str) -> str:
    return "".join(letter for letter in name if not letter.isdigit())
