"""What was meant by a name that is not there."""

from collections.abc import Iterable

_SOME = 24


def near(name: str, known: Iterable[str]) -> str:
    """What there is, or what is close to it where that is much: the end of a sentence that says that it is not."""
    names = list(known)
    if not names:
        return "there are none"
    if len(names) <= _SOME:
        return f"there {'are' if len(names) > 1 else 'is'} {', '.join(names)}"
    from difflib import get_close_matches  # only who errs needs it

    close = get_close_matches(name[:200], names, 3)
    return f"did you mean {' or '.join(close)}?" if close else f"there are {', '.join(names[:_SOME])}, ..."
