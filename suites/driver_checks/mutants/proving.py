"""Checks mutants, and judges whether the checks catch them."""

import asyncio
import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from drahealth.proto.events import ProcessExited
from drahealth.suites.driver_checks.all_checks import CHECKS
from drahealth.suites.driver_checks.check import needed_experiments
from drahealth.suites.driver_checks.driver_run import DriverRun
from drahealth.suites.driver_checks.evidence import Evidence
from drahealth.suites.driver_checks.experiments import EXPERIMENTS, REAL_KUBELET
from drahealth.suites.driver_checks.judge import ABSENCES, judge, unfinished
from drahealth.suites.driver_checks.mutants.driver import (
    FAULTS,
    MUTANTS,
    PLUGIN_FAULTS,
    WITHOUT_FAULT,
    command,
    subject_of,
)
from drahealth.suites.driver_checks.mutants.table import Mutant
from drahealth.suites.driver_checks.output_text import exit_text
from drahealth.suites.driver_checks.profile.file import profile_of
from drahealth.suites.driver_checks.real_kubelet import absence
from drahealth.suites.driver_checks.run_experiments import run_experiments
from drahealth.suites.driver_checks.subject.subject import AdaptersOf
from drahealth.suites.driver_checks.verdicts import LEVELS, Finding, Level, Verdict, requirements
from drahealth.suites.errors import HarnessError

PARALLEL = 12
"""Drivers that are checked at the same time. Most of the time they are watched, which costs little."""
STAGGER = 0.5
"""Seconds between two starts: processes that start together delay each other."""


@dataclass(frozen=True, slots=True)
class Proof:
    """The result of one driver."""

    driver: str
    """Name of the mutant, or `healthy`."""
    seconds: float
    caught_by: tuple[str, ...] = ()
    """The checks that failed, and had to."""
    missed_by: tuple[str, ...] = ()
    """The checks that had to fail, and did not, with what they found."""
    unrelated: tuple[str, ...] = ()
    """Checks of other requirements that failed, with what they found."""
    error: str = ""
    """Why the result is void: the driver did not start, or drahealth failed."""

    @property
    def ok(self) -> bool:
        """Whether the mutant was caught by its checks, and by no unrelated MUST; or the healthy driver conforms."""
        return not (self.missed_by or self.unrelated or self.error)


def level_of(name: str) -> Level:
    """The smallest level that has the checks and the experiments of a mutant; for the healthy driver, `core`.

    Where no real kubelet can run, the other checks of the mutant are proven.
    """
    if name not in MUTANTS:
        return "core"
    scopes = (requirements()[CHECKS[check].requirement].scope for check in MUTANTS[name].caught_by)
    level = max((MUTANTS[name].level, *scopes), key=LEVELS.index)
    return "core" if level == "full" and needs_kubelet(name) and absence() else level


def needs_kubelet(name: str) -> bool:
    """Whether the checks of a mutant need a real kubelet, where there is one."""
    return name in MUTANTS and not REAL_KUBELET.isdisjoint(experiments_of(MUTANTS[name]))


def _run(name: str) -> DriverRun:
    only = experiments_of(MUTANTS[name]) if name in MUTANTS else frozenset[str]()
    needs = {need for each in only or EXPERIMENTS for need in EXPERIMENTS[each].needs}
    is_plugin = subject_of(name) == "device-plugin"
    faults = PLUGIN_FAULTS if is_plugin else FAULTS
    profile = profile_of(
        {
            "driver": {"kind": "device-plugin" if is_plugin else "dra", "command": command(name)},
            "fault": faults if needs & {"fault", "rolling-update"} else (),
            "abilities": {"rolling-update": not is_plugin},
        }
    )
    return DriverRun(profile, only=only, level=level_of(name))


def experiments_of(mutant: Mutant) -> frozenset[str]:
    """The experiments that its checks need."""
    return needed_experiments(CHECKS[name] for name in mutant.caught_by)


async def prove(
    names: Iterable[str],
    done: Callable[[Proof], None] = lambda _: None,
    *,
    parallel: int = PARALLEL,
    adapters: AdaptersOf | None = None,
) -> list[Proof]:
    """Checks the named drivers, the slow ones first. `done` receives each result at once.

    Mutants that report faults wrongly, and the healthy driver, need `adapters`.
    """
    slots, kubelet = asyncio.Semaphore(parallel), asyncio.Semaphore(1)

    async def one(name: str) -> Proof:
        # A control plane needs much of a small machine: one at a time, beside the other drivers from the beginning on.
        async with kubelet if needs_kubelet(name) else slots:
            proof = await prove_one(name, adapters)
        done(proof)
        return proof

    tasks = []
    async with asyncio.TaskGroup() as group:
        for name in sorted(names, key=_cost, reverse=True):
            tasks.append(group.create_task(one(name)))
            await asyncio.sleep(STAGGER if len(tasks) < parallel else 0)
    return [task.result() for task in tasks]


def _cost(name: str) -> float:
    """The usual seconds of a check. Those on a real kubelet come first, because only one of them runs at a time."""
    if needs_kubelet(name):
        return math.inf
    only = experiments_of(MUTANTS[name]) if name in MUTANTS else EXPERIMENTS.keys()
    return max(EXPERIMENTS[each].seconds for each in only)


async def prove_one(name: str, adapters: AdaptersOf | None = None) -> Proof:
    """Checks one driver: a mutant only with the experiments that its checks need."""
    began = time.monotonic()
    try:
        evidence = await run_experiments(_run(name), adapters=adapters)
    except HarnessError as error:
        return Proof(name, time.monotonic() - began, error=str(error))
    return proof_of(name, evidence, time.monotonic() - began)


def proof_of(name: str, evidence: Evidence, seconds: float) -> Proof:
    """Judges the evidence of a driver. Pure."""
    level = evidence.header.level
    named = MUTANTS[name].caught_by if name in MUTANTS else ()
    must_fail = [check for check in named if requirements()[CHECKS[check].requirement].is_judged_at(level)]
    found = {check: finding for one in judge(evidence) for check, finding in one.findings.items()}
    stopped = {check: finding for one in judge(unfinished(evidence)) for check, finding in one.findings.items()}
    if error := _void(evidence, found):
        return Proof(name, seconds, error=error)
    also = MUTANTS[name].also if name in MUTANTS else ()
    related = {CHECKS[check].requirement for check in (*must_fail, *also)}
    caught = tuple(check for check in must_fail if found[check].verdict is Verdict.FAIL)
    missed = tuple(f"{check}: {_text(found[check])}" for check in must_fail if check not in caught)
    lost = [check for check in caught if check not in ABSENCES and stopped[check].verdict is not Verdict.FAIL]
    missed += tuple(f"{check}: {_text(stopped[check])}, although the violation was seen" for check in lost)
    wrong = (Verdict.FAIL,) if name in MUTANTS else (Verdict.FAIL, Verdict.NOT_TESTED)
    unrelated = tuple(
        f"{check}: {_text(finding)}"
        for check, finding in found.items()
        if finding.verdict in wrong and CHECKS[check].requirement not in related and _counts(name, check)
    )
    return Proof(name, seconds, caught, missed, unrelated)


def _counts(name: str, check: str) -> bool:
    """Whether a failure is one too many: of a MUST, and for the healthy driver of any requirement."""
    return name in WITHOUT_FAULT or requirements()[CHECKS[check].requirement].level == "MUST"


def _void(evidence: Evidence, found: dict[str, Finding]) -> str:
    """Why the evidence proves nothing."""
    crashed = (exit_text(one.what) for one in evidence.of(ProcessExited) if one.what.exit_code == 1)
    failed = (f"{check}: {one.seen}" for check, one in found.items() if one.verdict is Verdict.ERROR)
    cut = "" if evidence.complete else "the run was interrupted"
    return next(crashed, "") or next(failed, "") or cut


def _text(finding: Finding) -> str:
    return f"{finding.verdict}: {finding.seen}"
