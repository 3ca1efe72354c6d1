"""Which scenarios run, and in which order: the one that a seed draws, or the longest first."""

import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from functools import cache
from hashlib import sha256
from importlib import resources
from itertools import pairwise
from typing import TypeVar

import pytest

from drahealth.suites.judging.ledger import requirements
from drahealth.suites.run.scenario import Scenario, scenario_of
from drahealth.suites.targets.registry import TargetDefinition

# The order of scenarios that a seed draws. Pure.

T = TypeVar("T")


def drawn_order(items: Iterable[T], name_of: Callable[[T], str], seed: int) -> list[T]:
    """The same seed gives the same order on each machine.

    The order of two items does not depend on the others, so a selection (`-k`) keeps the order of the whole run.
    """
    return sorted(items, key=lambda item: sha256(f"{seed}/{name_of(item)}".encode()).digest())


# The order of a run with several processes: the longest scenarios first, so that all processes end at about the same
# time. `long_scenarios.toml` has the usual seconds on the targets where time is real.

_CHUNK = 1
"""The number of scenarios that a process gets at once. A process that is slow then delays no other scenario."""


def sort_longest_first(items: list[pytest.Item], target: TargetDefinition) -> None:
    """Sorts scenarios; those of the same duration, and other tests, keep their order.

    If scenarios overlap on the target, those that cannot come first: the others then follow one another.
    """
    usual = seconds().get(target.name, {})

    def place(item: pytest.Item) -> tuple[bool, int]:
        found = scenario_of(getattr(item, "function", None))
        if found is None:
            return True, 0
        return target.overlaps and not found.is_exclusive, -usual.get(found.name, 0)

    items.sort(key=place)


def distribute_evenly(config: pytest.Config) -> None:
    """Gives each process few scenarios at once, unless the user has chosen another number."""
    if getattr(config.option, "maxschedchunk", 0) is None:
        config.option.maxschedchunk = _CHUNK


@cache
def seconds() -> Mapping[str, Mapping[str, int]]:
    """The seconds of long scenarios, by target and name."""
    text = resources.files("drahealth.suites.run").joinpath("long_scenarios.toml").read_text(encoding="utf-8")
    found: dict[str, dict[str, int]] = tomllib.loads(text)
    return found


# The scenarios that a text of `-k` means: titles as printed, pytest expressions, and suggestions. Pure.

_OPERATORS = frozenset({"and", "or", "not"})
_WORD = re.compile(r"\w+")
_TOKEN = re.compile(r"[()]|[^\s()]+")
_COMMON = frozenset(
    {
        "a",
        "an",
        "and",
        "are",
        "as",
        "at",
        "be",
        "by",
        "for",
        "has",
        "have",
        "in",
        "is",
        "it",
        "its",
        "no",
        "not",
        "of",
        "on",
    }
    | {"one", "or", "show", "shows", "that", "the", "their", "to", "with"}
)
"""Words that do not describe a scenario."""
_SIMILAR = 0.8
"""The least similarity of two words, of which one can have a typing error or another ending."""
_ENDING = 4
"""Letters that two forms of a word have in common, such as `recovered` and `recovery`."""
_MOST = 3
"""Suggestions."""

_ALSO_CALLED: Mapping[str, str] = {
    "apiserver": "api server",
    "backoff": "back off",
    "bounce": "rapid changes",
    "cleanup": "unprepared",
    "corrupt": "malformed",
    "crashloop": "crash loop",
    "crashloopbackoff": "crash loop back off",
    "disconnect": "ended",
    "expire": "timeout",
    "featuregate": "gate",
    "flap": "rapid changes",
    "flicker": "rapid changes",
    "heal": "recovered",
    "kill": "crashed",
    "large": "thousands",
    "mig": "partitions",
    "offline": "down",
    "outage": "down",
    "partitionable": "partitions",
    "quick": "rapid changes",
    "rapidly": "rapid changes",
    "reboot": "restart",
    "reconnect": "opened again",
    "retry": "tried again",
    "rollout": "rolling update",
    "scale": "thousands",
    "sigkill": "crashed",
    "stale": "timeout",
    "truncate": "cut",
    "upgrade": "rolling update",
}
"""Words of users, and the words of the titles for them."""


def pytest_expression(text: str, names: Iterable[str]) -> str:
    """The expression of pytest for a text of `-k`: a title as printed, a part of it, or already an expression.

    Words side by side are no expression. They are a part of a name: `names` have underscores in place of spaces.
    """
    tokens = _TOKEN.findall(text)
    if not any(_is_name(one) and _is_name(two) for one, two in pairwise(tokens)):
        return text
    name = "_".join(_WORD.findall(text.lower()))
    if any(name in known for known in names):
        return name
    joined = list[str]()
    for token in tokens:
        if joined and _is_name(joined[-1]) and _is_name(token):
            joined[-1] += token if token.startswith("[") else f"_{token}"  # [v1.NodeHealth] has no space before it
        else:
            joined.append(token)
    return " ".join(joined)


def suggestions(text: str, scenarios: Iterable[Scenario]) -> list[str]:
    """The titles of the scenarios that the words of the text describe best; none if no word fits."""
    known = list(scenarios)
    words = [word for word in _words(text) if word not in _COMMON]
    scores = dict.fromkeys(range(len(known)), 0.0)
    for word in words:
        fits = [_fit(word, scenario) for scenario in known]
        common = sum(fit > 0 for fit in fits)
        for number, fit in enumerate(fits):
            scores[number] += fit / common if common else 0.0  # a rare word says more
    best = max(scores.values(), default=0.0)
    ranked = sorted((number for number in scores if scores[number] > best / 2), key=lambda n: (-scores[n], n))
    return [known[number].title for number in ranked[:_MOST]]


def _fit(word: str, scenario: Scenario) -> float:
    """How well a word describes a scenario: best in its title, less in its requirements."""
    title = _words(scenario.title)
    if _has(title, word) or any(all(_has(title, part) for part in also) for also in _also_called(word)):
        return 1.0
    sentences = (requirements()[name].sentence for name in scenario.requirements)
    return 0.3 if any(_has(_words(sentence), word) for sentence in sentences) else 0.0


def _also_called(word: str) -> Iterator[Sequence[str]]:
    for called, words in _ALSO_CALLED.items():
        if _are_alike(called, word) or word.startswith(called):
            yield words.split()


def _has(words: Iterable[str], wanted: str) -> bool:
    return any(_are_alike(word, wanted) for word in words)


def _are_alike(one: str, two: str) -> bool:
    if one == two:
        return True
    short, long = sorted((one, two), key=len)
    if len(short) < _ENDING or short[0] != long[0]:
        return False
    return long.startswith(short) or SequenceMatcher(None, one, two).ratio() >= _SIMILAR


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower().replace("_", " "))


def _is_name(token: str) -> bool:
    return token not in _OPERATORS and token not in "()"
