"""A run of the differential test: start the subject, print outcomes and counts, and write differing scripts."""

import logging
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from drahealth.manager.profile import Profile
from drahealth.suites.differential.campaign import Campaign, Outcome, Subject
from drahealth.suites.differential.record import Record
from drahealth.suites.differential.reference_play import NO_RESYNC
from drahealth.suites.differential.script import Script
from drahealth.suites.differential.shrinking import shrink
from drahealth.suites.differential.subjects import ReferenceSubject, TargetSubject
from drahealth.suites.targets.capabilities import Capability
from drahealth.suites.targets.definition import Configuration, Launch, TargetDefinition

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
