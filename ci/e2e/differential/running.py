"""The command of the differential test: play scripts, compare, and report."""

import asyncio
import logging
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, Protocol

import typer

from differential.comparison import Difference, compare, uncertainty
from differential.lane import Played
from differential.script import Record, Script, load_scripts
from differential.shrinking import shrink
from differential.subjects import (
    NO_RESYNC,
    ReferenceSubject,
    SharedRestart,
    TargetSubject,
    play_on_references,
)
from drahealth.fakes.cluster.api import ApiError
from drahealth.fakes.program.usage import SingleCommand
from drahealth.manager.profile import Profile
from drahealth.manager.releases import DEFAULT_VERSION
from drahealth.suites.errors import ConfigurationError, HarnessError, full_text
from drahealth.suites.targets import registry
from drahealth.suites.targets.capabilities import Capability
from drahealth.suites.targets.option import PROFILE
from drahealth.suites.targets.registry import Configuration, Launch, TargetDefinition
from drahealth.suites.targets.versions import parse_version, profile_of

# Play many scripts on the subject and on the reference, and compare.
#
# A difference counts if it occurs again in each of three replays, with new drivers and pods. A script that comes too
# close to the end of a timeout is played again, and counts as undecided if that does not help.

REPLAYS = 3
"""Number of replays in which a difference must occur again."""
_TRIES = 3
"""Maximum number of plays of a script that comes too close to the end of a timeout."""

Verdict = Literal["same", "different", "fleeting", "undecided", "broken"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a script.

    `same`: no difference. `different`: the same difference in each replay. `fleeting`: different, but not in each
    replay. `undecided`: too close to the end of a timeout each time. `broken`: not played to its end.
    """

    number: int
    script: Script
    verdict: Verdict
    differences: tuple[Difference, ...] = ()
    fault: str = ""
    plays: int = 1
    seen: Played | None = None
    """The first complete play on the subject."""


class Subject(Protocol):
    """The counterpart of the reference in a comparison."""

    @property
    def lanes(self) -> int:
        """The number of scripts that it plays at a time."""

    async def play(self, script: Script, restart: Callable[[], Awaitable[None]] | None = None) -> Played: ...

    async def restart(self) -> None: ...


@dataclass(frozen=True, slots=True)
class _Compared:
    seen: Played
    certain: tuple[Difference, ...]
    is_doubtful: bool


class Campaign:
    """Plays scripts on a subject and on references of `profile`. Calls `on_outcome` with each outcome."""

    def __init__(self, subject: Subject, profile: Profile, on_outcome: Callable[[Outcome], None]) -> None:
        self._subject = subject
        self._profile = profile
        self._on_outcome = on_outcome

    async def run(self, scripts: Mapping[int, Script]) -> list[Outcome]:
        """Play all scripts, by number. Scripts that restart the kubelet come last, in groups with one restart each."""
        free = asyncio.Semaphore(self._subject.lanes)

        async def one(number: int, script: Script) -> Outcome:
            async with free:
                return await self._judge(number, script)

        ordinary = {number: script for number, script in scripts.items() if not script.restarts}
        outcomes = list(await asyncio.gather(*(one(*item) for item in ordinary.items())))
        restarting = [item for item in scripts.items() if item[1].restarts]
        for begin in range(0, len(restarting), self._subject.lanes):
            outcomes += await self._judge_together(restarting[begin : begin + self._subject.lanes])
        return sorted(outcomes, key=lambda outcome: outcome.number)

    async def again(self, script: Script) -> Outcome:
        """The outcome of one more play of a script that differs, or of a smaller one."""
        compared = await self._try(script)
        if isinstance(compared, str):
            return Outcome(0, script, "broken", fault=compared)
        word: Verdict = "different" if compared.certain else "same"
        return Outcome(0, script, word, compared.certain, seen=compared.seen)

    async def _judge_together(self, group: Sequence[tuple[int, Script]]) -> list[Outcome]:
        restart = SharedRestart(self._subject.restart, len(group))

        async def one(number: int, script: Script) -> Outcome:
            try:
                first = await self._try(script, restart.restart)
            finally:
                await restart.leave()
            return await self._judge(number, script, first)

        async with asyncio.TaskGroup() as tasks:
            plays = [tasks.create_task(one(*item)) for item in group]
        return [play.result() for play in plays]

    async def _judge(self, number: int, script: Script, first: "_Compared | str | None" = None) -> Outcome:
        outcome = await self._verdict(number, script, first)
        self._on_outcome(outcome)
        return outcome

    async def _verdict(self, number: int, script: Script, first: "_Compared | str | None") -> Outcome:
        compared = first if first is not None else await self._try(script)
        plays = 1
        while plays < _TRIES and (isinstance(compared, str) or (compared.is_doubtful and not compared.certain)):
            compared = await self._try(script)
            plays += 1
        if isinstance(compared, str):
            return Outcome(number, script, "broken", fault=compared, plays=plays)
        if not compared.certain:
            word: Verdict = "undecided" if compared.is_doubtful else "same"
            return Outcome(number, script, word, plays=plays, seen=compared.seen)
        again = [await self._try(script) for _ in range(REPLAYS)]
        word = "different" if all(not isinstance(each, str) and each.certain for each in again) else "fleeting"
        return Outcome(number, script, word, compared.certain, plays=plays + REPLAYS, seen=compared.seen)

    async def _try(self, script: Script, restart: Callable[[], Awaitable[None]] | None = None) -> "_Compared | str":
        """One comparison, or the error that prevented it."""
        try:
            return await self._compare(script, restart)
        except (HarnessError, ApiError) as error:
            return full_text(error)
        except TimeoutError:
            return "timeout of a play"

    async def _compare(self, script: Script, restart: Callable[[], Awaitable[None]] | None) -> _Compared:
        theirs = await self._subject.play(script, restart)
        ours = await play_on_references(script, self._profile, theirs.times)
        differences = compare(ours, theirs)
        doubtful = uncertainty(script, theirs.times)
        certain = tuple(d for d in differences if not doubtful.covers(d.step, d.moment))
        return _Compared(theirs, certain, is_doubtful=len(certain) < len(differences))


# A run of the differential test: start the subject, print outcomes and counts, and write differing scripts.

SAME, DIFFERENT, ENVIRONMENT = 0, 1, 3
_EVERY = 20
"""Number of scripts after which the counts are printed."""

_SHOWN = 6
"""Maximum number of differences to print per script."""

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Compared:
    """The target that is compared with the reference, and its options."""

    definition: TargetDefinition
    configuration: Configuration


@dataclass(frozen=True, slots=True)
class Plan:
    """The options of a run. `profile` is that of the reference, not of the subject.

    The first `shrinks` scripts that differ are minimized with at most `plays` plays each. All that differ are written
    to the folder `out`.
    """

    scripts: Mapping[int, Script]
    subject: Compared
    kubernetes: str
    profile: Profile
    lanes: int
    shrinks: int
    plays: int
    out: Path


UNSURE = 0.1
"""Maximum share of fleeting or undecided scripts in a run that counts as one without differences."""


async def run(plan: Plan, say: Say, record: Sequence[Path] | None = None) -> int:
    """Run the plan and return the exit code. Raises HarnessError.

    `record` has one file per script, for the observed statuses.
    """
    counted: Counter[str] = Counter()
    begin = time.monotonic()

    def on_outcome(outcome: Outcome) -> None:
        counted[outcome.verdict] += 1
        for line in format_outcome(outcome):
            say(line)
        if counted.total() % _EVERY == 0:
            seconds = time.monotonic() - begin
            say(f"{counted.total()} of {len(plan.scripts)} scripts, {seconds:.0f} s: {format_counts(counted)}")

    async with _quiet(), _subject(plan, say) as subject:
        campaign = Campaign(subject, plan.profile, on_outcome)
        outcomes = await campaign.run(plan.scripts)
        different = [outcome for outcome in outcomes if outcome.verdict == "different"]
        for number, outcome in enumerate(different):
            await _write(outcome, campaign, plan, plan.plays if number < plan.shrinks else 0, say)
    for path, outcome in zip(record or (), outcomes, strict=record is not None):
        _record(outcome, plan, path, say)
    say(_closing(plan, outcomes, time.monotonic() - begin, counted))
    if different:
        return DIFFERENT
    unsure = counted["fleeting"] + counted["undecided"]
    if unsure > UNSURE * len(plan.scripts):
        say(f"{unsure} of {len(plan.scripts)} scripts are fleeting or undecided; reduce the load, or --lanes")
        return ENVIRONMENT
    return ENVIRONMENT if counted["broken"] else SAME


@asynccontextmanager
async def _quiet() -> AsyncIterator[None]:
    """Disable logging: the reference would log each error that drivers make on purpose."""
    logging.disable(logging.ERROR)
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)


@asynccontextmanager
async def _subject(plan: Plan, say: Say) -> AsyncIterator[Subject]:
    lanes = min(plan.lanes, len(plan.scripts))
    configuration = plan.subject.configuration
    if plan.subject.definition.can(Capability.ADVANCE_TIME):  # plays that share a clock disturb each other
        yield ReferenceSubject(configuration.profile, lanes)
        return
    seen: set[str] = set()

    def progress(stage: str, done: int | None = None, total: int | None = None) -> None:
        if stage not in seen:
            seen.add(stage)
            say(stage)

    target = configuration.make(Launch(progress, resync=NO_RESYNC))
    try:
        await target.start()
        async with TargetSubject(target, lanes) as subject:
            yield subject
    finally:
        await target.stop()


async def _write(outcome: Outcome, campaign: Campaign, plan: Plan, plays: int, say: Say) -> None:
    """Write the script with its differences. Minimize it first, as long as one difference of the same kind remains."""
    last, kind = outcome, outcome.differences[0].kind

    async def differs(script: Script) -> bool:
        nonlocal last
        again = await campaign.again(script)
        if kind not in {difference.kind for difference in again.differences}:
            return False
        last = again
        return True

    await shrink(outcome.script, differs, plays)
    path = plan.out / f"difference-{outcome.number}.json"
    _put(path, Record(last.script, plan.kubernetes, tuple(map(str, last.differences)), last.seen))
    say(f"script {outcome.number}: written to {path}; {len(last.script.steps)} of {len(outcome.script.steps)} steps:")
    for line in format_outcome(last)[1:]:
        say(line)


def _record(outcome: Outcome, plan: Plan, path: Path, say: Say) -> None:
    if outcome.verdict == "same":
        _put(path, Record(outcome.script, plan.kubernetes, (), outcome.seen))
        say(f"{path}: observed statuses written")


def _put(path: Path, record: Record) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(record.dump() + "\n", encoding="utf-8")


def _closing(plan: Plan, outcomes: Sequence[Outcome], seconds: float, counted: Counter[str]) -> str:
    subject = plan.subject.configuration.title
    steps = sum(len(outcome.script.steps) for outcome in outcomes)
    plays = sum(outcome.plays for outcome in outcomes)
    return (
        f"{len(outcomes)} scripts with {steps} steps, {plays} plays on {subject} beside the reference as "
        f"{plan.profile.name}, {seconds:.0f} s: {format_counts(counted)}"
    )


def format_outcome(outcome: Outcome) -> list[str]:
    """The lines to print for an outcome; none for "same"."""
    if outcome.verdict == "same":
        return []
    if outcome.verdict == "broken":
        return [f"script {outcome.number}: broken: {outcome.fault.splitlines()[0]}"]
    if outcome.verdict == "undecided":
        return [f"script {outcome.number}: undecided, too close to the end of a timeout {outcome.plays} times"]
    word = "differs" if outcome.verdict == "different" else "differed, but not in each replay"
    more = len(outcome.differences) - _SHOWN
    return [
        f"script {outcome.number}: {word}:",
        *(f"    {difference}" for difference in outcome.differences[:_SHOWN]),
        *([f"    and {more} more"] if more > 0 else []),
    ]


def format_counts(verdicts: Counter[str]) -> str:
    """The number of scripts per verdict."""
    return ", ".join(f"{verdicts[word]} {word}" for word in ("same", "different", "fleeting", "undecided", "broken"))


# The command of the differential test. It plays scripts from a seed or from files.

USAGE, _NOT_STARTED = 2, 3
_TARGETS = list(registry.definitions(Capability.SET_RESYNC))
"""The targets without periodic syncs. Scripts request each sync of a pod."""
_NAMES = ", ".join(target.name for target in _TARGETS)
_DEFAULT = next(target.name for target in _TARGETS if not target.can(Capability.ADVANCE_TIME))

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command(cls=SingleCommand)
def differential(
    scripts: Annotated[int, typer.Option(min=1, help="Number of scripts.")] = 60,
    seed: Annotated[int, typer.Option(help="Seed of the scripts; the same seed gives the same scripts.")] = 1,
    first: Annotated[
        int, typer.Option(min=0, help="Number of the first script. With it, a run continues an earlier run.")
    ] = 0,
    lanes: Annotated[int, typer.Option(min=1, max=40, help="Number of scripts that are played at the same time.")] = 16,
    target: Annotated[str, typer.Option(help=f"Target to compare with the reference: {_NAMES}.")] = _DEFAULT,
    kubernetes: Annotated[str, typer.Option(help="Release of the kubelet.")] = DEFAULT_VERSION,
    profile: Annotated[
        str | None, typer.Option(help="Profile of the reference; default: the profile of the release.")
    ] = None,
    replay: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE.json", help="Play this script, and generate none. The option can be repeated."),
    ] = None,
    record: Annotated[
        bool,
        typer.Option("--record", help="Update the statuses in the replayed files, if nothing differs."),
    ] = False,
    shrinks: Annotated[int, typer.Option(min=0, help="Maximum number of differing scripts to minimize.")] = 3,
    plays: Annotated[int, typer.Option(min=0, help="Maximum number of plays to minimize one script.")] = 60,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for scripts that differ.")] = Path(),
) -> None:
    """Play generated scripts on a real kubelet and on the reference, and compare the statuses of the Pods.

    Exit codes: 0 no difference, 1 differences, 2 wrong usage, 3 error in the environment.
    """
    try:
        if record and not replay:
            raise ConfigurationError("--record needs --replay", "name the files with --replay FILE.json")
        subject = _subject_options(target, kubernetes)
        beside = PROFILE.value(profile) if profile else subject.configuration.profile
        chosen = load_scripts(replay) if replay else _generated(seed, first, scripts)
        plan = Plan(chosen, subject, kubernetes, beside, lanes, shrinks, plays, out)
        code = asyncio.run(run(plan, typer.echo, replay if record else None))
    except ConfigurationError as error:
        sys.stderr.write(f"{error}\n")
        code = USAGE
    except HarnessError as error:
        sys.stderr.write(f"{full_text(error)}\n")
        code = _NOT_STARTED
    raise typer.Exit(code)


def main() -> None:
    app()


def _subject_options(target: str, kubernetes: str) -> Compared:
    """The target with the behavior of this release. Raises ConfigurationError."""
    definition = registry.definition(target, Capability.SET_RESYNC)
    behaves_as = profile_of(parse_version(kubernetes)).name
    by_profile = PROFILE.name in {option.name for option in definition.options}  # otherwise the release decides
    given: dict[str, str | None] = {PROFILE.name: behaves_as} if by_profile else {"kubernetes": kubernetes}
    return Compared(definition, definition.configure(registry.values(definition, "run", given)))


def _generated(seed: int, first: int, count: int) -> dict[int, Script]:
    from differential.generation import generate

    return dict(enumerate(generate(seed, first + count)[first:], start=first))
