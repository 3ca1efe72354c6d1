"""`drahealth certify --kubelet`: run the scenarios on a kubelet, judge it, and write its certificate."""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from rich.console import Console
from rich.text import Text

from drahealth.fakes.program.console import print_line, standard_output
from drahealth.proto.quoting import printable
from drahealth.suites.commands.certificate_files import (
    HISTORIES,
    KUBELET_FILES,
    RUN,
    STATEMENT,
    certificate_folder,
    certificate_texts,
)
from drahealth.suites.commands.running import run_scenarios
from drahealth.suites.driver_checks.verdicts import Verdict
from drahealth.suites.errors import ConfigurationError, HarnessError
from drahealth.suites.judging.ledger import requirements
from drahealth.suites.report.attestation import no_subject
from drahealth.suites.report.document import KubeletReport
from drahealth.suites.report.kubelet_certificate import JudgedBy, certify
from drahealth.suites.report.page import page_of
from drahealth.suites.report.page_view import run_column
from drahealth.suites.report.result_files import read_bytes, read_histories, read_run_report
from drahealth.suites.report.text import STYLE
from drahealth.suites.run.options import Options
from drahealth.suites.run.scenario import scenarios
from drahealth.suites.targets.kind.target import KindConfiguration
from drahealth.suites.targets.kubelet.target import KubeletConfiguration
from drahealth.suites.targets.option import KUBERNETES, choice
from drahealth.suites.targets.progress import StagePrinter


@dataclass(frozen=True)
class KubeletRequest:
    """What a user asks for, besides the target."""

    out: Path
    overwrite: bool = False
    judged_by: JudgedBy = "release"
    workers: int | None = None
    requirements: tuple[str, ...] = ()
    """The only requirements whose scenarios run, without a certificate; empty for all."""


_JUDGES: tuple[JudgedBy, ...] = get_args(JudgedBy)


def judge_named(text: str) -> JudgedBy:
    """The value of `--judge-by`. Raises ConfigurationError."""
    try:
        found: JudgedBy = choice(*_JUDGES)(text)
    except ValueError as error:
        raise ConfigurationError(f"--judge-by {error}, got {text!r}", "the default is release") from None
    return found


def certify_kubelet(given: Mapping[str, str | None], request: KubeletRequest) -> int:
    """Runs all scenarios on the target of `given`, and writes the certificate. Returns the exit code.

    A run that does not reach its end writes nothing. Raises ConfigurationError before anything starts, HarnessError.
    """
    options = Options.make(given)
    if request.requirements:
        _check(request.requirements)
        return run_scenarios(given, match=" or ".join(request.requirements), workers=request.workers)
    given = _with_patch_level(given, options)
    kubelet = _kubelet(options)
    with certificate_folder(request.out, overwrite=request.overwrite) as new:
        name, digest = _subject(options, kubelet)
        run_scenarios(given, workers=request.workers, report=str(new / RUN), histories=str(new / HISTORIES))
        if read_run_report(new / RUN).ended_early:
            raise HarnessError("the run did not reach its end, so there is no certificate", "certify again")
        if _subject(options, kubelet)[1] != digest:
            raise HarnessError(f"{kubelet} has changed during the run, so there is no certificate", "certify again")
        try:
            report = _write(new, request.judged_by, name, digest)
        except Exception:  # a mistake of drahealth: what was seen is kept
            for kept in (RUN, HISTORIES):
                (new / kept).replace(request.out / kept)
            raise
    console = standard_output()
    show_certificate(report, console)
    if not digest:
        problem, hint = no_subject(report)
        _print(console, f"\nno {STATEMENT}: {problem}; {hint}")
    _print(console, f"\n{request.out}: {', '.join(name for name in KUBELET_FILES if (request.out / name).exists())}")
    return report.exit_code


def _write(folder: Path, judged_by: JudgedBy, name: str, digest: str) -> KubeletReport:
    """Judges the run of a folder, and writes the files of the certificate beside it."""
    evidence = hashlib.sha256(read_bytes(folder / RUN)).hexdigest()
    run = read_run_report(folder / RUN)
    report = certify(run, judged_by=judged_by, evidence_sha256=evidence, artifact=name, artifact_sha256=digest)
    html = page_of([run_column(report, histories=read_histories(report, folder))])
    for file, text in certificate_texts(report, html).items():
        (folder / file).write_text(text, encoding="utf-8")
    return report


def plan_lines(given: Mapping[str, str | None]) -> list[str]:
    """What a certification would run and judge, as lines for people. Raises ConfigurationError."""
    options = Options.make(given)
    known = list(scenarios())
    unplayed = [one for one in known if one.why_not(options.health_api, options.missing)]
    played = {name for one in known if one not in unplayed for name in one.requirements}
    lines = [f"{options.about}: {len(known) - len(unplayed)} of {len(known)} scenarios"]
    for name, one in requirements().items():
        if one.judged == "scenario" and name not in played:
            reason = next(
                each.why_not(options.health_api, options.missing) for each in unplayed if name in each.requirements
            )
            lines.append(f"no scenario judges {name} ({one.level}): {reason}")
    return lines


def _check(names: tuple[str, ...]) -> None:
    if unknown := [name for name in names if name not in requirements()]:
        raise ConfigurationError(
            f"--requirement {unknown[0]} is no requirement of kubelets", "docs/reference/requirements.md lists them"
        )


def _with_patch_level(given: Mapping[str, str | None], options: Options) -> Mapping[str, str | None]:
    """On kind, the certificate names the patch release, so the cluster must have exactly this one."""
    configuration = options.configuration
    if isinstance(configuration, KindConfiguration):
        return {**given, KUBERNETES.name: configuration.kubernetes}
    return given


def _kubelet(options: Options) -> Path | None:
    """The file of the kubelet; None if the target does not show it. Downloads or builds the one of a release."""
    configuration = options.configuration
    if not isinstance(configuration, KubeletConfiguration):
        return None
    from drahealth.suites.targets.kubelet.ensure import ensure

    progress = StagePrinter(Console(stderr=True, highlight=False))
    return configuration.kubelet or ensure(configuration.kubernetes, progress).kubelet


def _subject(options: Options, kubelet: Path | None) -> tuple[str, str]:
    """The name and the digest of the kubelet; both are empty without its file."""
    if kubelet is None:
        return "", ""
    configuration = options.configuration
    assert isinstance(configuration, KubeletConfiguration)
    name = str(configuration.kubelet or f"kubelet v{configuration.kubernetes}")
    return name, hashlib.sha256(read_bytes(kubelet)).hexdigest()


# What `certify --kubelet` prints: the verdicts that are not PASS, and the certificate.


def show_certificate(report: KubeletReport, console: Console) -> None:
    """Prints the requirements that do not have PASS with the reasons, the numbers of verdicts, and the certificate."""
    for one in sorted(report.requirements, key=lambda one: one.verdict):
        if one.verdict is not Verdict.PASS:
            head = Text(f"{one.verdict} {one.id} ({one.level}): {one.sentence}", style=STYLE[one.verdict])
            print_line(console, head)
            for line in report.certificate.explanation(one.id):
                print_line(console, Text(f"  {printable(line)}"))
    counted = {verdict: sum(one.verdict is verdict for one in report.requirements) for verdict in Verdict}
    _print(console, f"\n{', '.join(f'{count} {verdict}' for verdict, count in counted.items() if count)}")
    style = "bold green" if report.certificate.certified else "bold red"
    console.print(Text("\n".join(_verdict(report)), style=style), soft_wrap=True)


def _verdict(report: KubeletReport) -> Iterator[str]:
    yield f"\n{printable(report.verdict)}"
    yield from (f"  {printable(reason)}" for reason in report.reasons)


def _print(console: Console, line: str) -> None:
    console.print(line, soft_wrap=True, markup=False, highlight=False)
