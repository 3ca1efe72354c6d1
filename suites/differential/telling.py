"""What is printed of outcomes."""

from collections import Counter

from drahealth.suites.differential.campaign import Outcome

_SHOWN = 6
"""Differences of one script that are printed."""


def lines(outcome: Outcome) -> list[str]:
    """What is printed of an outcome; nothing of one that is the same."""
    if outcome.verdict == "same":
        return []
    if outcome.verdict == "broken":
        return [f"script {outcome.number}: could not be played: {outcome.fault.splitlines()[0]}"]
    if outcome.verdict == "undecided":
        return [f"script {outcome.number}: undecided, too near to the edge of a timeout {outcome.plays} times"]
    word = "differs" if outcome.verdict == "different" else "differed, but not in each replay"
    more = len(outcome.differences) - _SHOWN
    return [
        f"script {outcome.number}: {word}:",
        *(f"    {difference}" for difference in outcome.differences[:_SHOWN]),
        *([f"    and {more} more"] if more > 0 else []),
    ]


def tally(verdicts: Counter[str]) -> str:
    """How many of each."""
    return ", ".join(f"{verdicts[word]} {word}" for word in ("same", "different", "fleeting", "undecided", "broken"))
