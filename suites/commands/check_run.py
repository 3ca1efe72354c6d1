"""`drahealth check`, `judge` and `report`: settings from flags, run or read, judge, and write."""

import json
import os
import shutil
import stat
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from shlex import join, quote
from typing import get_args

from rich.console import Console

from drahealth.fakes.hints import near
from drahealth.fakes.program.console import standard_output
from drahealth.fakes.program.usage import command_as_called
from drahealth.suites.commands.check_output import annotations, show, to_json, to_junit
from drahealth.suites.commands.check_progress import Progress, ticking, view_on
from drahealth.suites.commands.ending import run_terminable
from drahealth.suites.driver_checks.all_checks import CHECKS
from drahealth.suites.driver_checks.check import needed_experiments
from drahealth.suites.driver_checks.claim_file import read_claim_file
from drahealth.suites.driver_checks.evidence import Evidence, EvidenceError, read_evidence
from drahealth.suites.driver_checks.sandbox.declared import Sandbox
from drahealth.suites.driver_checks.settings import CDI_DIRS, DEADLINE, DriverApiServer, Settings, plan
from drahealth.suites.driver_checks.summary import Summary, Waiver, read_waivers, summarize
from drahealth.suites.driver_checks.verdicts import Level, SubjectKind, requirements
from drahealth.suites.errors import ConfigurationError
from drahealth.suites.judging.report import RunReport
from drahealth.suites.output_paths import check_output_file
from drahealth.suites.report.document import Report, report_of, report_schema
from drahealth.suites.report.page import page, page_of
from drahealth.suites.report.pull_request import badge, pull_request_text
from drahealth.suites.report.result_files import Files, read_files
from drahealth.suites.report.results import NOT_JUDGED_AGAIN
from drahealth.suites.targets.api_servers.options import ApiServerKind
from drahealth.suites.targets.option import choice
from drahealth.suites.targets.versions import parse_version

# The flags of `drahealth check` as settings.


def settings_of(
    words: Sequence[str],
    *,
    device_plugin: bool = False,
    registry_dir: Path | None = None,
    kubeconfig: Path | None = None,
    cdi_dirs: Sequence[Path] = (),
    node_name: str = "",
    env: Sequence[str] = (),
    driver_name: str = "",
    api_server: str = "memory",
    kubernetes: str | None = None,
    claim: Path | None = None,
    requirements: Sequence[str] = (),
    sequential: bool = False,
    sandbox: bool = False,
    private: Sequence[Path] = (),
    deadline: float = DEADLINE,
    evidence: Path | None = None,
    redact: bool = True,
) -> Settings:
    """The settings of a run. Raises ConfigurationError."""
    command, socket = target_of(words, registry_dir)
    if registry_dir and not registry_dir.is_dir():
        raise ConfigurationError(
            f"--registry-dir {registry_dir} is not a directory", "start the kubelet or the driver first"
        )
    if command and "{" not in command[0] and shutil.which(command[0]) is None:
        raise _not_runnable(command, device_plugin=device_plugin)
    if private and not sandbox:
        raise ConfigurationError("--private needs --sandbox", "pass --sandbox, or remove --private")
    if kubernetes and api_server != "real":
        raise ConfigurationError(
            "--kubernetes needs --api-server real", "pass --api-server real, or remove --kubernetes"
        )
    return Settings(
        command=command,
        subject="device-plugin" if device_plugin else "dra-driver",
        environment=dict(_variable(one) for one in env),
        driver_name=driver_name,
        registry_dir=registry_dir.absolute() if registry_dir else None,
        socket=socket,
        cdi_dirs=tuple(cdi_dirs) or CDI_DIRS,
        node_name=node_name,
        kubeconfig=kubeconfig,
        api_server=api_server_kind(api_server),
        kubernetes=kubernetes and parse_version(kubernetes),
        claim=read_claim_file(claim) if claim else (),
        claim_file=claim,
        only=experiments_for(requirements),
        sequential=sequential,
        sandbox=Sandbox(private=tuple(map(str, private))) if sandbox else None,
        deadline=deadline,
        evidence=evidence,
        redact=redact,
    )


def api_server_kind(text: str) -> DriverApiServer:
    """The value of --api-server. Raises ConfigurationError."""
    try:
        found: DriverApiServer = choice(*get_args(ApiServerKind), "none")(text)
    except ValueError as error:
        raise ConfigurationError(f"--api-server {error}, got {text!r}", "the default is memory") from None
    return found


def _not_runnable(command: Sequence[str], *, device_plugin: bool) -> ConfigurationError:
    if len(command) == 1 and command[0].endswith(".sock"):
        running = "pass the registration socket of a running driver, or `-- COMMAND...`"
        started = "pass `-- COMMAND...`, because a check of a device plugin must start it"
        return ConfigurationError(f"there is no socket {command[0]}", started if device_plugin else running)
    hint = "pass the path of an executable program"
    if len(command) == 1 and not device_plugin:
        hint += ", or the registration socket of a running driver"
    return ConfigurationError(f"cannot run {command[0]}", hint)


def _variable(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise ConfigurationError(f"--env must be NAME=VALUE, got {text!r}", "write --env NAME=VALUE")
    return name, value


def target_of(words: Sequence[str], registry_dir: Path | None) -> tuple[tuple[str, ...], Path | None]:
    """The command and the socket from the words of the command line: one word that is a socket is a running driver."""
    if registry_dir or not words:
        return tuple(words), None
    if len(words) == 1:
        with suppress(OSError):
            if stat.S_ISSOCK(Path(words[0]).stat().st_mode):
                return (), Path(words[0]).absolute()
    return tuple(words), None


def experiments_for(names: Sequence[str]) -> frozenset[str]:
    """The experiments that the checks of these requirements need; empty for no requirement, which stands for all."""
    return needed_experiments(check for check in CHECKS.values() if check.requirement in names)


# `drahealth report`: a page, a badge or a text from the results of earlier runs.

MOST = 8
"""The most results side by side: more columns are not readable."""


@dataclass(frozen=True)
class Wanted:
    """The files to write."""

    html: str | None = None
    summary: str | None = None
    badge: str | None = None

    def check(self) -> None:
        """Raises ConfigurationError for no file, or an unwritable one."""
        if not (self.html or self.summary or self.badge):
            raise ConfigurationError("there is nothing to write", "pass --html FILE, --summary FILE or --badge FILE")
        for name in (self.html, self.summary, self.badge):
            check_output_file(name)


def write_files(paths: Sequence[Path], wanted: Wanted) -> None:
    """Reads the results, and writes the files. Raises ConfigurationError."""
    if not paths:
        raise ConfigurationError(
            "missing argument RESULT", "pass files of `--report` or `--evidence`, or directories of certificates"
        )
    wanted.check()
    files = read_files(paths)
    results = files.results()
    if len(results) > MOST:
        raise ConfigurationError(f"at most {MOST} results fit side by side, got {len(results)}", "pass fewer files")
    texts = dict[str, str]()
    if wanted.summary:
        texts[wanted.summary] = pull_request_text(_only_report(files))
    if wanted.badge:
        texts[wanted.badge] = badge(_only_check(files))
    for name, text in texts.items():
        Path(name).write_text(text, encoding="utf-8")
    if wanted.html:
        Path(wanted.html).write_text(page_of(results), encoding="utf-8")
    for name, one in files.reports.items():
        if isinstance(one, Report):
            line = f"{name}: verdicts {NOT_JUDGED_AGAIN}"
            standard_output().print(line, soft_wrap=True, markup=False, highlight=False)


def _only_report(files: Files) -> Report | RunReport:
    if len(files.reports) == 1:
        return next(iter(files.reports.values()))
    raise ConfigurationError(f"--summary needs exactly one report, got {len(files.reports)}", "use --html for several")


def _only_check(files: Files) -> Report:
    if len(files.reports) == 1 and isinstance(report := next(iter(files.reports.values())), Report):
        return report
    raise ConfigurationError(
        "--badge needs exactly one report of `drahealth check` or `certify`", "use --html, or --summary for a run"
    )


def schema_text() -> str:
    """The JSON Schema of reports."""
    return json.dumps(report_schema(), indent=1)


# `drahealth check` and `drahealth judge`: run or read, judge, show, write the reports.

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
    from drahealth.suites.driver_checks.fault_adapters import FaultAdapters
    from drahealth.suites.driver_checks.run_experiments import run_experiments

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
