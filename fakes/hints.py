"""What was meant by a name that is not there."""

from collections.abc import Iterable, Sequence

_SOME = 24
_LOOKED_AT = 2000
"""Names that are compared; of more, the first ones."""
_LONGEST = 200
_CLEARLY = 0.05
"""By so much more than the next one the closest name has in common with what was said, where all are named anyhow."""


def near(name: str, known: Iterable[str]) -> str:
    """What there is, and which of it was meant, if that can be told: the end of a sentence that says that it is not."""
    names = list(known)
    if not names:
        return "there are none"
    if len(names) <= _SOME:
        meant = _closest(name, names)
        there = f"there {'are' if len(names) > 1 else 'is'} {', '.join(names)}"
        return f"did you mean {meant}? {there}" if meant and len(names) > 1 else there
    from difflib import get_close_matches  # only who errs needs it

    close = get_close_matches(name[:_LONGEST], names[:_LOOKED_AT], 3)
    return f"did you mean {' or '.join(close)}?" if close else f"there are {', '.join(names[:_SOME])}, ..."


def _closest(name: str, names: Sequence[str]) -> str:
    """The one that is clearly closer than all others; empty if there is none.

    One that differs in its number alone is another of them, and no slip of the pen.
    """
    from difflib import SequenceMatcher, get_close_matches

    close = get_close_matches(said := name[:_LONGEST], names, 2)
    ratios = [*(SequenceMatcher(None, other, said).ratio() for other in close), 0.0]
    clearly = bool(close) and ratios[0] > ratios[1] + _CLEARLY
    return close[0] if clearly and _without_numbers(close[0]) != _without_numbers(said) else ""


def _without_numbers(name: str) -> str:
    return "".join(letter for letter in name if not letter.isdigit())
