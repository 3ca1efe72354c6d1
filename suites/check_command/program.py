"""`drahealth check` and `drahealth judge`: run or read, judge, show, write the reports."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from shlex import join, quote

from rich.console import Console

from drahealth.fakes.hints import near
from drahealth.fakes.program.console import standard_output
from drahealth.fakes.program.invocation import command_as_called
from drahealth.suites.certifying.report.document import report_of
from drahealth.suites.certifying.report.page import page
from drahealth.suites.check_command.live_view import ticking, view_on
from drahealth.suites.check_command.progress import Progress
from drahealth.suites.check_command.report import annotations, to_json, to_junit
from drahealth.suites.check_command.table import show
from drahealth.suites.check_command.terminable import run_terminable
from drahealth.suites.checking.evidence import Evidence, EvidenceError, read_evidence
from drahealth.suites.checking.ledger import Level, SubjectKind, requirements
from drahealth.suites.checking.settings import CDI_DIRS, DEADLINE, Settings, plan
from drahealth.suites.checking.summary import Summary, summarize
from drahealth.suites.checking.waivers import Waiver, read_waivers
from drahealth.suites.errors import ConfigurationError
from drahealth.suites.output_paths import check_output_file

_SUBJECTS: dict[SubjectKind, str] = {"dra-driver": "DRA driver", "device-plugin": "device plugin"}


@dataclass(frozen=True)
class Outputs:
    """Where the result goes, besides standard output."""

    report: str | None = None
    junitxml: str | None = None
    waiver_file: Path | None = None
    requirements: Sequence[str] = ()
    """The only requirements to judge; empty for all."""
    html: str | None = None

    def check(self) -> None:
        """Raises ConfigurationError for an unwritable file, invalid waivers or an unknown requirement."""
        for name in (self.report, self.junitxml, self.html):
            check_output_file(name)
        _ = self.waivers
        for name in self.requirements:
            if name not in requirements():
                raise ConfigurationError(
                    f"unknown requirement for drivers and device plugins {name!r}", near(name, requirements())
                )

    def check_level(self, level: Level, subject: SubjectKind) -> None:
        """Raises ConfigurationError for a requirement that runs of this level on such a subject do not judge."""
        for name in self.requirements:
            if requirements()[name].binds != subject:
                other = "pass --device-plugin" if subject == "dra-driver" else "leave out --device-plugin"
                raise ConfigurationError(f"{name} does not apply to a {_SUBJECTS[subject]}", other)
            if not requirements()[name].is_judged_at(level):
                scope = requirements()[name].scope
                raise ConfigurationError(
                    f"{name} is not judged at level {level}", f"use `drahealth certify --level {scope}`"
                )

    @cached_property
    def waivers(self) -> tuple[Waiver, ...]:
        """The waivers, read once: the file can change or go during a run. Raises ConfigurationError."""
        try:
            return read_waivers(self.waiver_file) if self.waiver_file else ()
        except OSError as error:
            raise ConfigurationError(
                f"cannot read {self.waiver_file}: {error.strerror}", "pass another file to --waivers"
            ) from None


def check(settings: Settings, outputs: Outputs, rerun: str = "") -> int:
    """Runs the experiments, and judges them. Returns the exit code.

    `rerun` is the command that repeats a part of the run; by default, the one of `drahealth check`.
    """
    outputs.check()
    outputs.check_level(settings.level, settings.subject)
    evidence = run_with_progress(settings, outputs.requirements)
    if rerun:
        return _conclude(evidence, outputs, rerun, rerun)
    without_secrets = tuple(word.replace("{cwd}", ".") for word in evidence.header.command)
    shared = rerun_command(replace(settings, command=without_secrets))
    return _conclude(evidence, outputs, rerun_command(settings), shared)


def run_with_progress(settings: Settings, only: Sequence[str] = ()) -> Evidence:
    """Runs the experiments, and shows their progress on standard error. SIGTERM and SIGINT end the run.

    `only` are the IDs of the requirements that the user selected; empty for all.
    """
    from drahealth.suites.certifying.faults.adapters import FaultAdapters
    from drahealth.suites.checking.run import run_experiments

    async def run(progress: Progress) -> Evidence:
        async with ticking(progress.tick):
            return await run_experiments(settings, progress, adapters=FaultAdapters)

    with view_on(Console(stderr=True)) as view:
        return run_terminable(run(Progress(settings, view, only)))


def judge_file(path: Path, outputs: Outputs) -> int:
    """Judges evidence again. Returns the exit code. Raises ConfigurationError if it cannot be read."""
    outputs.check()
    try:
        evidence = read_evidence(path)
    except EvidenceError as error:
        raise ConfigurationError(f"{path}, {error}", "pass evidence that `drahealth check --evidence` wrote") from None
    except OSError as error:
        raise ConfigurationError(f"cannot read {path}: {error.strerror}", "pass an evidence file") from None
    outputs.check_level(evidence.header.level, evidence.header.subject)
    return _conclude(evidence, outputs, *[f"drahealth judge {quote(str(path))} --requirement REQUIREMENT"] * 2)


def show_plan(settings: Settings, outputs: Outputs) -> None:
    """Prints the experiments, their costs, and why some of them do not run. Raises as `check`."""
    outputs.check()
    outputs.check_level(settings.level, settings.subject)
    console = standard_output()
    for experiment, excluded in plan(settings):
        cost = f"{experiment.seconds:4g} s" if not excluded else "  not run"
        console.print(f"{cost:9}  {experiment.process:10} {experiment.name}: {experiment.sentence}", soft_wrap=True)
        if excluded:
            console.print(f"{'':9}  {'':10} reason: {excluded}", soft_wrap=True)
    usual = "40 to 50 s for a driver" if settings.subject == "dra-driver" else "about 20 s for a device plugin"
    console.print(f"\nThe processes run side by side: {usual} that answers at once.", soft_wrap=True)


def _conclude(evidence: Evidence, outputs: Outputs, rerun: str, shared_rerun: str) -> int:
    """Judges evidence, prints the result and writes the files. `shared_rerun` is for the files: without secrets."""
    today = datetime.now(UTC).date()
    summary = summarize(evidence, waivers=outputs.waivers, today=today, only=outputs.requirements)
    show(summary, standard_output(), command_as_called(rerun))
    report = report_of(summary, evidence, shared_rerun)
    if outputs.report:
        Path(outputs.report).write_text(to_json(report) + "\n")
    if outputs.html:
        Path(outputs.html).write_text(page(report, evidence), encoding="utf-8")
    if outputs.junitxml:
        Path(outputs.junitxml).write_text(to_junit(summary, evidence) + "\n")
    write_annotations(summary)
    return summary.exit_code


def write_annotations(summary: Summary) -> None:
    """Prints the annotations in GitHub Actions."""
    if os.environ.get("GITHUB_ACTIONS") == "true":
        for line in annotations(summary):
            print(line)  # noqa: T201


def rerun_command(settings: Settings) -> str:
    """The command that repeats a part of a run, without the values of variables, which can be secrets."""
    options = {
        "--api-server": settings.api_server if settings.api_server != "memory" else None,
        "--kubernetes": settings.kubernetes,
        "--driver-name": settings.driver_name or None,
        "--registry-dir": settings.registry_dir,
        "--kubeconfig": settings.kubeconfig,
        "--node-name": settings.node_name or None,
        "--claim": settings.claim_file,
        "--deadline": f"{settings.deadline:g}" if settings.deadline != DEADLINE else None,
    }
    words = ["drahealth", "check", "--requirement", "REQUIREMENT"]
    words += ["--device-plugin"] if settings.subject == "device-plugin" else []
    words += [f"--env={name}=..." for name in settings.environment]
    words += [f"{name}={value}" for name, value in options.items() if value is not None]
    words += [f"--cdi-dir={path}" for path in settings.cdi_dirs if settings.cdi_dirs != CDI_DIRS]
    if settings.sandbox:
        words += ["--sandbox", *(f"--private={path}" for path in settings.sandbox.private)]
    words += ["--sequential"] if settings.sequential else []
    words += [str(settings.socket)] if settings.socket else []
    return join([*words, *(["--", *settings.command] if settings.command else [])])
