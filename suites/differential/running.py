"""A campaign from its beginning to its end: the subject, the tally, and what is written of what differs."""

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
from drahealth.suites.differential.script import Script
from drahealth.suites.differential.shrinking import shrink
from drahealth.suites.differential.telling import lines, tally
from drahealth.suites.differential.venue import NO_RESYNC, ReferenceVenue, Venue
from drahealth.suites.targets.capabilities import Capability
from drahealth.suites.targets.definition import Configuration, Launch, TargetDefinition

SAME, DIFFERENT, ENVIRONMENT = 0, 1, 3
_EVERY = 20
"""After so many scripts the tally is told."""

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Compared:
    """The target that is compared with the reference, and its options."""

    definition: TargetDefinition
    configuration: Configuration


@dataclass(frozen=True, slots=True)
class Plan:
    """What is played where: `profile` is that of the reference beside the subject. The first
    `shrinks` scripts that differ are made smaller, by at most `plays` plays each, and all are written to `out`."""

    scripts: Mapping[int, Script]
    subject: Compared
    kubernetes: str
    profile: Profile
    lanes: int
    shrinks: int
    plays: int
    out: Path


UNSURE = 0.1
"""The share of scripts that may be fleeting or undecided in a run that is taken to have found no difference."""


async def run(plan: Plan, say: Say, record: Sequence[Path] | None = None) -> int:
    """The exit code. `record`: files, one a script, that what was seen is written to. Raises HarnessError."""
    counted: Counter[str] = Counter()
    begin = time.monotonic()

    def tell(outcome: Outcome) -> None:
        counted[outcome.verdict] += 1
        for line in lines(outcome):
            say(line)
        if counted.total() % _EVERY == 0:
            say(f"{counted.total()} of {len(plan.scripts)} scripts, {time.monotonic() - begin:.0f} s: {tally(counted)}")

    async with _quiet(), _subject(plan, say) as subject:
        campaign = Campaign(subject, plan.profile, tell)
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
        say(f"{unsure} of {len(plan.scripts)} scripts say nothing: the machine may be too busy")
        return ENVIRONMENT
    return ENVIRONMENT if counted["broken"] else SAME


@asynccontextmanager
async def _quiet() -> AsyncIterator[None]:
    """What drivers do wrong on purpose, the reference would tell of."""
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
        yield ReferenceVenue(configuration.profile, lanes)
        return
    said: set[str] = set()

    def progress(stage: str, done: int | None = None, total: int | None = None) -> None:
        if stage not in said:
            said.add(stage)
            say(stage)

    target = configuration.make(Launch(progress, resync=NO_RESYNC))
    try:
        await target.start()
        async with Venue(target, lanes) as venue:
            yield venue
    finally:
        await target.stop()


async def _write(outcome: Outcome, campaign: Campaign, plan: Plan, plays: int, say: Say) -> None:
    """The script, made smaller as long as something differs in the way that something did first, with what differs."""
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
    for line in lines(last)[1:]:
        say(line)


def _record(outcome: Outcome, plan: Plan, path: Path, say: Say) -> None:
    if outcome.verdict == "same":
        _put(path, Record(outcome.script, plan.kubernetes, (), outcome.seen))
        say(f"{path}: what was seen is written down")


def _put(path: Path, record: Record) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(record.dump() + "\n", encoding="utf-8")


def _closing(plan: Plan, outcomes: Sequence[Outcome], seconds: float, counted: Counter[str]) -> str:
    subject = plan.subject.configuration.title
    steps = sum(len(outcome.script.steps) for outcome in outcomes)
    plays = sum(outcome.plays for outcome in outcomes)
    return (
        f"{len(outcomes)} scripts with {steps} steps, {plays} plays on {subject} beside the reference as "
        f"{plan.profile.name}, {seconds:.0f} s: {tally(counted)}"
    )
