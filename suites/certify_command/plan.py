"""`drahealth certify --plan`: what a run would judge, what not and why, and the time that it takes."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from drahealth.fakes.program.console import standard_output
from drahealth.suites.checking.checks import CHECKS
from drahealth.suites.checking.duration import duration
from drahealth.suites.checking.experiments.experiment import Experiment
from drahealth.suites.checking.faults import FAULTS_LIMIT
from drahealth.suites.checking.ledger import DriverRequirement, requirements
from drahealth.suites.checking.sandbox.declared import Sandbox
from drahealth.suites.checking.sandbox.running import trial
from drahealth.suites.checking.settings import Settings, plan
from drahealth.suites.errors import HarnessError


@dataclass(frozen=True, slots=True)
class Planned:
    """A requirement of the run."""

    requirement: DriverRequirement
    reasons: tuple[str, ...]
    """Why it cannot be judged; empty if it can, in full or in part."""


def planned_requirements(settings: Settings) -> list[Planned]:
    """The requirements of the level, in the order of the ledger. What the driver does is not known yet."""
    excluded = {experiment.name: reason for experiment, reason in plan(settings)}
    found = []
    for one in requirements().values():
        if one.is_judged(settings.level, settings.subject):
            of_checks = [
                [excluded[name] for name in check.experiments if excluded.get(name)]
                for check in CHECKS.values()
                if check.requirement == one.id
            ]
            reasons = dict.fromkeys(reason for each in of_checks for reason in each)
            found.append(Planned(one, tuple(reasons) if all(of_checks) else ()))
    return found


def show_plan(settings: Settings) -> None:
    """Prints the plan."""
    console = standard_output()
    for line in plan_lines(settings):
        console.print(line, soft_wrap=True, markup=False, highlight=False)
    if settings.sandbox:
        console.print(sandbox_line(settings.sandbox), soft_wrap=True, markup=False, highlight=False)


def sandbox_line(declared: Sandbox) -> str:
    """Whether this machine allows the sandbox. Makes one, and ends it."""
    with TemporaryDirectory(prefix="dra-") as folder:
        try:
            namespaces = asyncio.run(trial(declared, Path(folder)))
        except HarnessError as error:
            return f"sandbox: not possible here: {error}"
    private = ", ".join(declared.private_directories) or "none"
    return f"sandbox: possible here; namespaces: {', '.join(namespaces)}; private directories: {private}"


def _left_out(settings: Settings, experiment: Experiment) -> str:
    """The names of the faults for which an experiment has no time."""
    caused = settings.faults_of(experiment)
    return ", ".join(one.name for one in settings.faults if one.lasts and one not in caused) if caused else ""


def plan_lines(settings: Settings) -> Iterator[str]:
    """The plan as text."""
    for experiment, excluded in plan(settings):
        cost = "not run" if excluded else f"{settings.seconds_of(experiment):.0f} s"
        yield f"{cost:>7}  {experiment.process:10} {experiment.name}: {experiment.sentence}"
        if excluded:
            yield f"{'':20}reason: {excluded}"
        elif names := _left_out(settings, experiment):
            yield f"{'':20}without {names}: all faults together need more than {FAULTS_LIMIT:g} s"
    found = planned_requirements(settings)
    judged = [one.requirement for one in found if not one.reasons]
    musts = sum(one.level == "MUST" for one in judged)
    yield f"\nlevel {settings.level} judges {len(judged)} of {len(found)} requirements, {musts} of them MUST:"
    for family in dict.fromkeys(one.family for one in judged):
        yield f"  {family}: {', '.join(one.id for one in judged if one.family == family)}"
    reasons = dict.fromkeys(one.reasons for one in found if one.reasons)
    for reason in reasons:
        names = ", ".join(one.requirement.id for one in found if one.reasons == reason)
        yield f"not judged: {names}\n  reason: {'; '.join(reason)}"
    yield f"\nabout {duration(settings):.0f} s for a driver that answers at once"
