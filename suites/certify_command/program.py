"""`drahealth certify`: run, judge, show, and write the certificate."""

import hashlib
import shutil
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from pathlib import Path
from shlex import quote

from drahealth.fakes.program.console import standard_output
from drahealth.fakes.program.invocation import command_as_called
from drahealth.fakes.program.user_files import FileError
from drahealth.suites.certify_command import folder
from drahealth.suites.certify_command.files import read_report
from drahealth.suites.certifying.certificate.certificate import certificate_of
from drahealth.suites.certifying.certificate.comparison import exit_code_beside, new_findings
from drahealth.suites.certifying.pod_status.lines import release_lines
from drahealth.suites.certifying.profile.file import ProfileFile, read_profile
from drahealth.suites.certifying.report.badge import badge
from drahealth.suites.certifying.report.document import Report, report_of
from drahealth.suites.certifying.report.page import page
from drahealth.suites.certifying.report.pull_request import pull_request_text
from drahealth.suites.check_command.program import Outputs, check, run_with_progress, write_annotations
from drahealth.suites.check_command.report import to_json, to_junit
from drahealth.suites.check_command.table import show
from drahealth.suites.checking.evidence import Evidence
from drahealth.suites.checking.settings import Settings
from drahealth.suites.checking.summary import Summary, summarize
from drahealth.suites.checking.waivers import Waiver
from drahealth.suites.errors import ConfigurationError


@dataclass(frozen=True)
class Request:
    """What a user asks for, besides the settings of the run."""

    profile: Path
    out: Path
    overwrite: bool = False
    waivers: Path | None = None
    baseline: Path | None = None
    requirements: tuple[str, ...] = ()
    """The only requirements to judge, without a certificate; empty for all."""


def read_profile_file(path: Path) -> ProfileFile:
    """Reads a driver profile. Raises ConfigurationError."""
    try:
        return read_profile(path)
    except FileError as error:
        raise ConfigurationError(str(error)) from None
    except OSError as error:
        raise ConfigurationError(
            f"cannot read {path}: {error.strerror}", "`drahealth certify --init` writes a driver profile"
        ) from None


def certify(settings: Settings, request: Request) -> int:
    """Certifies a driver. Returns the exit code. Raises ConfigurationError before anything starts."""
    check_program(settings)
    rerun = f"drahealth certify {quote(str(request.profile))} --level {settings.level} --requirement REQUIREMENT"
    outputs = Outputs(waiver_file=request.waivers, requirements=request.requirements)
    if request.requirements:
        return check(settings, outputs, rerun)
    outputs.check()
    baseline = read_report(request.baseline) if request.baseline else None
    with folder.certificate_folder(request.out, overwrite=request.overwrite) as new:
        evidence = run_with_progress(replace(settings, evidence=new / folder.EVIDENCE))
        digest = hashlib.sha256((new / folder.EVIDENCE).read_bytes()).hexdigest()
        today = datetime.now(UTC).date()
        try:
            summary, report = judged(evidence, digest, outputs.waivers, today, rerun)
            write_files(new, summary, report, evidence)
        except Exception:  # a mistake of drahealth: what was seen is kept, so that it can be judged again
            (new / folder.EVIDENCE).replace(request.out / folder.EVIDENCE)
            raise
    show(summary, standard_output(), command_as_called(rerun))
    for line in ("", *release_lines(report.releases)):
        _print(line)
    write_annotations(summary)
    _print(f"\n{request.out}: {', '.join(name for name in folder.FILES if (request.out / name).exists())}")
    return _beside(report, baseline) if baseline else summary.exit_code


def judged(
    evidence: Evidence, digest: str, waivers: tuple[Waiver, ...], today: date, rerun: str
) -> tuple[Summary, Report]:
    """The result of a certification, and its report. Pure. `digest` is that of the evidence file."""
    summary = summarize(evidence, waivers=waivers, today=today)
    certificate = certificate_of(summary, evidence, evidence_sha256=digest, waivers=waivers, today=today)
    summary = replace(summary, certificate=certificate.text)
    return summary, report_of(summary, evidence, rerun, certificate)


def write_files(path: Path, summary: Summary, report: Report, evidence: Evidence) -> None:
    """Writes the files of the certificate, except its evidence. Raises OSError."""
    texts = {
        folder.REPORT: to_json(report) + "\n",
        folder.PAGE: page(report, evidence),
        folder.JUNIT: to_junit(summary, evidence) + "\n",
        folder.TEXT: pull_request_text(report),
        folder.BADGE: badge(report),
    }
    for name, text in texts.items():
        (path / name).write_text(text, encoding="utf-8")


def _beside(report: Report, baseline: Report) -> int:
    """Prints what the baseline did not have. Returns the exit code."""
    found = new_findings(report, baseline)
    for one in found:
        _print(f"not in the baseline: {one}")
    if not found:
        _print("The baseline had all findings.")
    return exit_code_beside(report, baseline)


def check_program(settings: Settings) -> None:
    """Raises ConfigurationError if the driver's program does not exist."""
    if not settings.command or "{" in settings.command[0]:
        return
    program = settings.command[0]
    if "/" in program:
        program = str((settings.working_directory or Path.cwd()) / program)
    if shutil.which(program) is None:
        hint = "set `command` of the driver profile to a program of this machine; drahealth does not pull images"
        raise ConfigurationError(f"cannot run {program}", hint)


def _print(line: str) -> None:
    standard_output().print(line, soft_wrap=True, markup=False, highlight=False)
