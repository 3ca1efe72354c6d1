"""What waiting in vain says."""


def timed_out(expected: str, seconds: float, seen: str) -> TimeoutError:
    """The error of a wait: what was expected for how long, and what was seen last."""
    return TimeoutError(f"expected: {expected}; not so after {seconds:g} s; last seen: {seen}")
