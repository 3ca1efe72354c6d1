"""The `scenario` decorator, the list of all scenarios and their names, and which of them run, in which order."""

import importlib
import inspect
import os
import pkgutil
import re
import tomllib
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cache, partial, wraps
from hashlib import sha256
from importlib import resources
from itertools import pairwise
from pathlib import Path, PurePath
from types import MappingProxyType
from typing import Any, NamedTuple, Never, TypeVar

import pytest

from drahealth.proto.health_apis import HealthApi
from drahealth.suites.errors import reject_old_arguments
from drahealth.suites.judging.ledger import requirements
from drahealth.suites.run.options import Options
from drahealth.suites.targets.capabilities import Capability, named
from drahealth.suites.targets.registry import TargetDefinition

# The `scenario` decorator: it names the requirements that a test checks. The test gets a `node`.
#
#     @scenario("STATUS-01")
#     async def test_an_unhealthy_device_shows_in_the_pod_status(node):
#         driver, pod, gpu = await node.pod_with_a_gpu()
#         await gpu.becomes(UNHEALTHY)
#         await pod.shows(gpu, UNHEALTHY)
#
# For pytest, the decorated function is synchronous, so no plugin for asynchronous tests is involved.

EVERYTHING: Mapping[Capability, str] = MappingProxyType({})
"""What a target lacks that can do everything."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """The declaration of a scenario."""

    name: str
    requirements: tuple[str, ...]
    title: str
    needs: tuple[Capability, ...] = ()
    """The capabilities that a target must have for it, beside those that its requirements need."""
    counterpart_of: tuple[str, ...] = ()
    """The tests of the KEP and of Kubernetes that it covers (suites/unit/upstream_tests.toml)."""

    @property
    def all_needs(self) -> frozenset[Capability]:
        """Its own needs, and those of its requirements."""
        return frozenset(self.needs).union(*(requirements()[name].needs for name in self.requirements))

    @property
    def is_exclusive(self) -> bool:
        """It disrupts every pod on its node, so no other one may run there at the same time."""
        return any(capability.exclusive for capability in self.all_needs)

    def beyond(self, health_api: HealthApi | None, missing: Mapping[Capability, str] = EVERYTHING) -> tuple[str, ...]:
        """Its requirements that need more than this health API carries, or a capability that is `missing`.

        With any of them the scenario is not applicable.
        """
        if any(capability in missing for capability in self.needs):
            return self.requirements
        lacking = {name for name in self.requirements if missing.keys() & requirements()[name].needs}
        return tuple(name for name in self.requirements if name in lacking or _missing(name, health_api))

    def why_not(self, health_api: HealthApi | None, missing: Mapping[Capability, str] = EVERYTHING) -> str:
        """Why it is not applicable, in a clause; empty if it is. `missing` has the reason of each capability."""
        needs = [("it", self.needs), *((name, requirements()[name].needs) for name in self.requirements)]
        for who, capability in ((who, capability) for who, those in needs for capability in those):
            if capability in missing:
                return f"{who} needs {capability.value}: {missing[capability]}"
        if not health_api or not self.beyond(health_api):
            return ""
        fields = (f"{name} needs {' and '.join(_missing(name, health_api))}" for name in self.beyond(health_api))
        return f"{', '.join(fields)}, which {health_api.name} does not have"


def _missing(requirement: str, health_api: HealthApi | None) -> list[str]:
    """Fields that it needs and the health API does not have; None stands for the released ones, which have all."""
    fields = requirements()[requirement].needs_fields
    return [field for field in fields if health_api and field not in health_api.carries]


_NEW_ARGUMENTS = {"alone": "needs=('restart-kubelet', ...)", "not_on": "needs=('set-resync', ...)"}


def scenario(
    *checks: str, needs: tuple[str, ...] = (), counterpart_of: tuple[str, ...] = (), **old: Never
) -> Callable[[Callable[..., Awaitable[None]]], Callable[..., None]]:
    """Declares which requirements of the ledger a test checks, which capabilities it needs beside those that the
    requirements need, and whose counterpart it is.

    Raises ValueError for an id that is not in the ledger, and for an unknown capability. Raises TypeError for an old
    argument, with the new one.
    """
    reject_old_arguments("scenario", old, _NEW_ARGUMENTS)
    for name in checks:
        if name not in requirements():
            raise ValueError(f"requirement {name!r} is not in the ledger, suites/judging/requirements.toml")
    capabilities = named(needs)

    def declare(story: Callable[..., Awaitable[None]]) -> Callable[..., None]:
        @wraps(story)
        def run(**fixtures: Any) -> None:
            fixtures["node"].play(partial(story, **fixtures))

        name = story.__name__
        title = name.removeprefix("test_").replace("_", " ")
        run.scenario = Scenario(name, checks, title, capabilities, counterpart_of)  # type: ignore[attr-defined]
        return run

    return declare


def scenario_of(test: object) -> Scenario | None:
    """The scenario behind a test function, None if it is an ordinary one."""
    found = getattr(test, "scenario", None)
    return found if isinstance(found, Scenario) else None


# The list of all scenarios, without running them.

SCENARIOS = "drahealth.suites.kep"
"""The package of the scenarios, by name, because its fixture imports this folder."""


def scenarios_folder() -> Path:
    """The folder of the scenarios."""
    return Path(str(resources.files(SCENARIOS)))


def scenarios() -> Iterator[Scenario]:
    """All scenarios of `suites/kep`, in the order of files and of lines."""
    return (found for _, found in _tests())


def source_of(name: str) -> str:
    """The source code of a scenario of `suites/kep`. Raises KeyError for an unknown name."""
    tests = {found.name: test for test, found in _tests()}
    return inspect.getsource(tests[name])


def _tests() -> Iterator[tuple[Callable[..., object], Scenario]]:
    for module in sorted(pkgutil.iter_modules([str(scenarios_folder())]), key=lambda found: found.name):
        if not module.name.startswith("test_"):
            continue
        tests = vars(importlib.import_module(f"{SCENARIOS}.{module.name}")).values()
        yield from ((test, found) for test in tests if (found := scenario_of(test)))


# The names of scenarios in results: the same from the command, `--pyargs` and a checkout, and in all releases.

KEP = "drahealth.kep"
"""The class name of our scenarios. It has no module, because a scenario may move to another one."""

TIMELINES = "drahealth.timelines"
"""The beginning of the class names of timelines; the path of the file follows."""

TIMELINE_SUFFIX = ".timeline.yaml"

STANDARD_INPUT = f"stdin{TIMELINE_SUFFIX}"
"""The name of the file with the timelines from standard input."""


def case_of(item: pytest.Item) -> tuple[str, str] | None:
    """The class name and the name of a scenario of ours, or of a timeline; None for others, which pytest names."""
    if not isinstance(item, pytest.Function):
        return f"{TIMELINES}.{_dotted(item.path)}", item.name
    return (KEP, item.name) if item.path.parent.samefile(scenarios_folder()) else None


def id_of(item: pytest.Item) -> str:
    """What identifies a scenario in a run: no two tests have the same."""
    if not isinstance(item, pytest.Function):
        path = STANDARD_INPUT if item.path.name == STANDARD_INPUT else os.path.relpath(item.path)
        return f"{path}::{item.name}"
    case = case_of(item)
    return "::".join(case) if case else item.nodeid


def _dotted(path: Path) -> str:
    """The path of a timeline as seen from the current directory, with dots. One that is outside of it has its name."""
    parts = PurePath(os.path.relpath(path)).parts
    parts = parts[-1:] if parts[0] == os.pardir else parts
    return ".".join(parts).removesuffix(TIMELINE_SUFFIX)


# Scenarios that are played over several health APIs, or on several nodes. pytest sees them as parameters of the
# fixture `node`.

BASIC = "test_basic.py"
"""The file of the scenarios that a plain run plays over every health API."""


class Play(NamedTuple):
    """How a scenario is played in one test."""

    api: HealthApi | None
    """The only health API of the drivers; None: that of the run."""
    node: str
    """The node that is judged; empty for any."""


def play_in_each_way(metafunc: pytest.Metafunc) -> None:
    """Makes a test for each health API, on each node that is judged by itself.

    The test over the default API on any node keeps its name. A scenario is left out over an API that is not the only
    one of the run and that it is not applicable to.
    """
    scenario, options = scenario_of(metafunc.function), Options.of(metafunc.config)
    assert scenario
    file = Path(str(metafunc.module.__file__))
    basic = file.name == BASIC and file.parent.samefile(scenarios_folder())
    nodes = options.configuration.judged_nodes
    ways = [Play(api, "") for api in options.health_apis(options.profile, basic=basic)]
    if nodes:
        called = {node: options.health_apis(one.profile, basic=basic) for node, one in nodes.items()}
        ways = [Play(api, node) for node, apis in called.items() for api in apis]
    elif len(ways) == 1:
        return
    several = len({way.api for way in ways}) > 1
    kept = [way for way in ways if options.every_health_api or not several or not scenario.why_not(way.api)]
    ids = ["-".join(_ways(way, options)) or pytest.HIDDEN_PARAM for way in kept]
    metafunc.parametrize("node", kept, indirect=True, ids=ids)


def _ways(way: Play, options: Options) -> Iterator[str]:
    if way.api and way.api is not options.health_api:
        yield way.api.name
    if way.node:
        yield way.node


def play_of(item: pytest.Item, options: Options) -> Play:
    """How this test plays its scenario."""
    call = getattr(item, "callspec", None)
    chosen = call.params.get("node") if call else None
    way = chosen if isinstance(chosen, Play) else Play(None, "")
    return way._replace(api=way.api or options.health_api)


def suffix(item: pytest.Item, options: Options) -> str:
    """What the name of a scenario needs to differ from the same one over another health API, or on another node."""
    words = "-".join(_ways(play_of(item, options), options))
    return f"[{words}]" if words else ""


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
