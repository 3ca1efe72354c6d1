"""`drahealth certify`: run and judge a driver, and write its certificate."""

import hashlib
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from pathlib import Path
from shlex import quote
from typing import Literal, get_args

from drahealth.fakes.program.console import standard_output
from drahealth.fakes.program.usage import command_as_called
from drahealth.fakes.program.user_files import FileError
from drahealth.suites.commands.certificate_files import FILES, STATEMENT, certificate_folder, certificate_texts
from drahealth.suites.commands.check_run import (
    Outputs,
    api_server_kind,
    check,
    experiments_for,
    run_with_progress,
    write_annotations,
)
from drahealth.suites.driver_checks.driver_run import DriverRun, check_kubeconfig
from drahealth.suites.driver_checks.evidence import Evidence
from drahealth.suites.driver_checks.profile.file import read_profile
from drahealth.suites.driver_checks.summary import Summary, summarize
from drahealth.suites.driver_checks.verdicts import Waiver
from drahealth.suites.errors import ConfigurationError
from drahealth.suites.report.attestation import (
    NO_SUBJECT,
    NO_SUBJECT_HINT,
)
from drahealth.suites.report.check_report import (
    certificate_of,
    check_report,
    exit_code_beside,
    new_findings,
)
from drahealth.suites.report.document import CheckReport
from drahealth.suites.report.page import page
from drahealth.suites.report.result_files import EVIDENCE, read_report
from drahealth.suites.report.shown_by_releases import kubelet_lines, release_lines
from drahealth.suites.report.text import show
from drahealth.suites.targets.option import choice

# `drahealth certify`: run, judge, show, and write the certificate.


@dataclass(frozen=True)
class Request:
    """What a user asks for, besides the run."""

    profile: Path
    out: Path
    overwrite: bool = False
    waivers: Path | None = None
    baseline: Path | None = None
    requirements: tuple[str, ...] = ()
    """The only requirements to judge, without a certificate; empty for all."""


def certify(run: DriverRun, request: Request) -> int:
    """Certifies a driver. Returns the exit code. Raises ConfigurationError before anything starts."""
    check_program(run)
    rerun = f"drahealth certify {quote(str(request.profile))} --level {run.level} --requirement REQUIREMENT"
    outputs = Outputs(waiver_file=request.waivers, requirements=request.requirements)
    if request.requirements:
        return check(run, outputs, rerun)
    outputs.check()
    baseline = _check_report(request.baseline) if request.baseline else None
    with certificate_folder(request.out, overwrite=request.overwrite) as new:
        evidence = run_with_progress(replace(run, evidence=new / EVIDENCE))
        digest = hashlib.sha256((new / EVIDENCE).read_bytes()).hexdigest()
        today = datetime.now(UTC).date()
        try:
            summary, report = judged(evidence, digest, outputs.waivers, today, rerun)
            write_files(new, report, evidence)
        except Exception:  # a mistake of drahealth: what was seen is kept, so that it can be judged again
            (new / EVIDENCE).replace(request.out / EVIDENCE)
            raise
    show(summary, standard_output(), command_as_called(rerun))
    kubelets = report.certificate.kubelets if report.certificate else ()
    for line in ("", *kubelet_lines(kubelets), *release_lines(report.releases)):
        _print(line)
    write_annotations(summary)
    if not evidence.header.artifact_sha256:
        _print(f"\nno {STATEMENT}: {NO_SUBJECT}; {NO_SUBJECT_HINT}")
    _print(f"\n{request.out}: {', '.join(name for name in FILES if (request.out / name).exists())}")
    return _beside(report, baseline) if baseline else summary.exit_code


def judged(
    evidence: Evidence, digest: str, waivers: tuple[Waiver, ...], today: date, rerun: str
) -> tuple[Summary, CheckReport]:
    """The result of a certification, and its report. Pure. `digest` is that of the evidence file."""
    summary = summarize(evidence, waivers=waivers, today=today)
    certificate = certificate_of(summary, evidence, evidence_sha256=digest, waivers=waivers, today=today)
    summary = replace(summary, certificate=certificate.text)
    return summary, check_report(summary, evidence, rerun, certificate)


def write_files(path: Path, report: CheckReport, evidence: Evidence) -> None:
    """Writes the files of the certificate, except its evidence. Raises OSError."""
    for name, text in certificate_texts(report, page(report, evidence)).items():
        (path / name).write_text(text, encoding="utf-8")


def _beside(report: CheckReport, baseline: CheckReport) -> int:
    """Prints what the baseline did not have. Returns the exit code."""
    found = new_findings(report, baseline)
    for one in found:
        _print(f"not in the baseline: {one}")
    if not found:
        _print("The baseline had all findings.")
    return exit_code_beside(report, baseline)


def check_program(run: DriverRun) -> None:
    """Raises ConfigurationError if the driver's program does not exist."""
    driver = run.profile.driver
    if driver.artifact and not driver.identified()[1]:
        raise ConfigurationError(
            f"artifact of [driver] must be a file, or an image with @sha256:DIGEST, got {driver.artifact}",
            "correct the driver profile",
        )
    if not driver.command or "{" in driver.command[0]:
        return
    program = driver.command[0]
    if "/" in program:
        program = str(driver.working_directory / program)
    if shutil.which(program) is None:
        hint = "set `command` of the driver profile to a program of this machine; drahealth does not pull images"
        raise ConfigurationError(f"cannot run {program}", hint)


def _print(line: str) -> None:
    standard_output().print(line, soft_wrap=True, markup=False, highlight=False)


# The driver profile of `drahealth certify`, with the flags.

CertifiedLevel = Literal["core", "full"]
DEADLINES: dict[CertifiedLevel, float] = {"core": 180.0, "full": 420.0}
"""Seconds of the longest run by default."""


def run_of(
    path: Path,
    *,
    level: str = "core",
    api_server: str | None = None,
    deadline: float | None = None,
    requirements: Sequence[str] = (),
) -> DriverRun:
    """The run of a driver profile. `api_server` replaces that of the profile. Raises ConfigurationError."""
    wanted = _level(level)
    try:
        run = read_profile(path)
    except FileError as error:
        raise ConfigurationError(str(error)) from None
    except OSError as error:
        raise ConfigurationError(
            f"cannot read {path}: {error.strerror}", "`drahealth certify --init` writes a driver profile"
        ) from None
    profile = run.profile
    if api_server:
        if profile.driver.running or profile.driver.cluster:
            raise ConfigurationError(
                "--api-server is for a driver that drahealth starts on this machine", "remove --api-server"
            )
        other = profile.api_server.model_copy(update={"kind": api_server_kind(api_server), "kubeconfig": None})
        profile = profile.model_copy(update={"api_server": other})
    check_kubeconfig(profile)
    return replace(
        run,
        profile=profile,
        level=wanted,
        deadline=DEADLINES[wanted] if deadline is None else deadline,
        only=experiments_for(requirements),
    )


def _level(text: str) -> CertifiedLevel:
    try:
        found: CertifiedLevel = choice(*get_args(CertifiedLevel))(text)
    except ValueError as error:
        raise ConfigurationError(f"--level {error}, got {text!r}", "the default is core") from None
    return found


def _check_report(path: Path) -> CheckReport:
    report = read_report(path)
    if not isinstance(report, CheckReport):
        raise ConfigurationError(
            f"{path} is a report of `{report.program}`", "pass the report of a check or a certification"
        )
    return report
