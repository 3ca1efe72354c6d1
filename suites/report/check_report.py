"""The report of a check or a certification from its evidence, its certificate, and its difference from others. Pure."""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import date
from shlex import join
from typing import Any

from drahealth.manager.device_plugins import API as DEVICE_PLUGIN_API
from drahealth.proto.events import FaultInjected, ListReceived
from drahealth.proto.health_apis import HEALTH_APIS
from drahealth.proto.quoting import one_line
from drahealth.proto.services import VERSION
from drahealth.proto.version import __version__
from drahealth.suites.driver_checks.all_checks import CHECKS
from drahealth.suites.driver_checks.evidence import Evidence
from drahealth.suites.driver_checks.observed import driver_name
from drahealth.suites.driver_checks.observed_health import streams
from drahealth.suites.driver_checks.summary import Outcome, Summary, needing_api_server
from drahealth.suites.driver_checks.verdicts import GRADES, OPEN, ExitCode, Finding, Verdict, Waiver, requirements
from drahealth.suites.report.document import (
    FORMAT,
    Certificate,
    CheckedRequirement,
    CheckFinding,
    CheckReport,
    Report,
    to_json,
)
from drahealth.suites.report.shown_by_releases import health_by_release, shown_by_releases


def check_report(
    summary: Summary, evidence: Evidence, rerun: str = "", certificate: Certificate | None = None
) -> CheckReport:
    """The report of a run. `rerun` is the command that repeats a part of it, with REQUIREMENT in place of an ID."""
    header = evidence.header
    return CheckReport(
        format=FORMAT,
        kind="certificate" if certificate else "check",
        subject=one_line(subject_name(evidence) or header.profile or join(header.command) or "a running driver"),
        verdict=summary.verdict,
        exit_code=summary.exit_code,
        complete=evidence.complete and not summary.only,
        interrupted=not evidence.complete,
        partial=bool(summary.only),
        reasons=summary.reasons,
        conditions=header,
        counts=dict(Counter(one.verdict for one in summary.judgements)),
        requirements=tuple(
            CheckedRequirement(
                **asdict(one.requirement),
                verdict=one.verdict,
                findings=_findings(one.findings),
                not_judged={name: finding.seen for name, finding in one.not_judged.items()},
                remarks=_findings(one.remarks),
            )
            for one in summary.judgements
        ),
        rerun=rerun,
        certificate=certificate,
        families=dict(summary.families),
        abilities=summary.abilities,
        covered=dict(summary.covered),
        not_caused=summary.not_caused,
        releases=shown_by_releases(evidence),
    )


def _findings(found: Mapping[str, Finding]) -> tuple[CheckFinding, ...]:
    return tuple(CheckFinding(check=name, fix=CHECKS[name].fix, **asdict(finding)) for name, finding in found.items())


# What a run certifies: a level, with the health APIs, releases, version and ledger that it holds for.

_SHOWN = 8
"""Characters of a digest in a text."""
_HEALTH = ".DRAResourceHealth"
_FAULTS = ("faults", "plugin-fault-plan")
"""The experiments that cause each fault of the driver profile."""


def certificate_of(
    summary: Summary, evidence: Evidence, *, evidence_sha256: str, waivers: Sequence[Waiver], today: date
) -> Certificate:
    """The certificate of a run of level core or full."""
    certified = is_certified(summary)
    found = Certificate(
        certified=certified,
        text="",
        level=evidence.header.level,
        driver=one_line(subject_name(evidence)),
        health_apis=health_apis(evidence),
        releases=releases(summary),
        kubelets=health_by_release(evidence),
        drahealth=__version__,
        ledger_sha256=ledger_sha256(),
        evidence_sha256=evidence_sha256,
        judged=today,
        waivers=tuple(waivers),
    )
    return replace(found, text=_text(found, summary, evidence))


def is_certified(summary: Summary) -> bool:
    """Whether a run judged all requirements of its level, and no MUST of them is open."""
    return summary.outcome is Outcome.CONFORMS and not summary.only and not summary.of_any(*OPEN)


def _text(certificate: Certificate, summary: Summary, evidence: Evidence) -> str:
    what = f"certified {certificate.level}" if certificate.certified else f"not certified {certificate.level}"
    if not certificate.certified:
        outcome = Outcome.INCOMPLETE if summary.outcome is Outcome.CONFORMS else summary.outcome
        what += f" ({outcome})"
    names = [name.removesuffix(_HEALTH) for name in certificate.health_apis if name != DEVICE_PLUGIN_API]
    is_device_plugin = DEVICE_PLUGIN_API in certificate.health_apis
    parts = [what, certificate.driver or f"driver profile {one_line(evidence.header.profile)}"]
    if not evidence.complete:
        parts.append("the run did not reach its end")
    if summary.running:
        parts.append("driver not started by drahealth")
    if evidence.header.workload:
        parts.append(f"driver in a cluster ({one_line(evidence.header.workload)})")
    if waived := summary.of_any(Verdict.WAIVED):
        parts.append(f"waived {' + '.join(one.requirement.id for one in waived)}")
    if is_device_plugin:
        parts.append(f"device plugin API {VERSION}")
    else:
        parts.append(f"health {' + '.join(names)}" if names else "no health API")
    if names or is_device_plugin:
        parts.append(_faults(summary, evidence))
    if evidence.header.api_server == "none":
        parts.append(f"without an API server ({len(needing_api_server(summary.judgements))} requirements not judged)")
    parts.append(f"Kubernetes {certificate.releases}")
    parts.append(f"drahealth {certificate.drahealth}")
    parts.append(f"ledger {certificate.ledger_sha256[:_SHOWN]}")
    return ", ".join(parts)


def subject_name(evidence: Evidence) -> str:
    """The name that the driver gave in GetInfo, or the resources of a device plugin; empty without one."""
    if evidence.header.subject == "device-plugin":
        return " + ".join(sorted({one.what.driver for one in evidence.of(ListReceived)}))
    return driver_name(evidence)


def _faults(summary: Summary, evidence: Evidence) -> str:
    """How faults were caused, the weakest way first: asked of the driver, or forced outside it.

    Without faults it names changes of health that the driver made by itself.
    """
    caused = {one.what.grade for one in evidence.of(FaultInjected, *_FAULTS) if one.what.outcome == "done"}
    if found := [grade for grade in GRADES if grade in caused]:
        return f"faults {' + '.join(found)}"
    return "no faults (changes of health observed)" if "changes of health" in summary.abilities else "no faults"


def health_apis(evidence: Evidence) -> tuple[str, ...]:
    """The names of the health APIs with a report, the best one first; of a device plugin, the API of its lists."""
    if evidence.header.subject == "device-plugin":
        return (DEVICE_PLUGIN_API,) if any(evidence.of(ListReceived)) else ()
    seen = {stream.api.name for stream in streams(evidence) if stream.reports}
    return tuple(name for name in HEALTH_APIS if name in seen)


def releases(summary: Summary) -> str:
    """The minors from the oldest to the newest of the judged requirements."""
    minors = [
        tuple(map(int, minor.split(".")))
        for one in summary.judgements
        for minor in re.findall(r"\d+\.\d+", one.requirement.kubernetes)
    ]
    if not minors:
        return "none"
    oldest, newest = (".".join(map(str, minor)) for minor in (min(minors), max(minors)))
    return oldest if oldest == newest else f"{oldest}-{newest}"


def ledger_sha256() -> str:
    """Digest of the ledger: changes with any requirement."""
    content = [asdict(one) for one in requirements().values()]
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


# Compares reports: with a judgement of the same evidence, with each other, and with a baseline.


@dataclass(frozen=True, slots=True)
class Difference:
    """One value that two reports do not share."""

    where: str
    """Path of the value, such as `PLUGIN-05.verdict`."""
    first: str
    second: str


_ABSENT = "absent"
_OF_ANY_RUN = {"started", "experiments", "host", "revision"}
"""The conditions that differ between any two runs."""


def differences(first: Report, second: Report, *, same_run: bool = False) -> list[Difference]:
    """What differs, in the order of the reports, which have the same kind.

    For two reports of the same run everything counts; otherwise what was tested, the verdicts and the outcomes.
    """
    sides = [json.loads(to_json(one)) for one in (first, second)]
    by_id = [{one["id"]: one for one in side.pop("requirements")} for side in sides]
    if same_run:
        return [*_values("", *sides), *_values("", *by_id)]
    conditions = ({k: v for k, v in side["conditions"].items() if k not in _OF_ANY_RUN} for side in sides)
    verdicts = ({name: one["verdict"] for name, one in side.items()} for side in by_id)
    outcomes = ({one["id"] or one["name"]: one["outcome"] for one in side.get("scenarios", ())} for side in sides)
    return [*_values("conditions", *conditions), *_values("", *verdicts), *_values("", *outcomes)]


def _values(path: str, first: Any, second: Any) -> Iterator[Difference]:
    if isinstance(first, Mapping) and isinstance(second, Mapping):
        for key in {**first, **second}:
            where = f"{path}.{key}" if path else str(key)
            yield from _values(where, first.get(key, _ABSENT), second.get(key, _ABSENT))
    elif isinstance(first, list) and isinstance(second, list) and len(first) == len(second):
        for number, (one, other) in enumerate(zip(first, second, strict=True)):
            yield from _values(f"{path}.{number}", one, other)
    elif first != second:
        yield Difference(path, _short(first), _short(second))


def _short(value: Any) -> str:
    if isinstance(value, Mapping) and "verdict" in value:
        return str(value["verdict"])
    text = str(value)
    return text if len(text) <= 200 else f"{text[:197]}..."


def new_findings(report: CheckReport, baseline: CheckReport) -> list[str]:
    """The findings on MUSTs that prevent a certificate, and that the baseline did not have: ID, check and verdict."""
    known = set(_open_findings(baseline))
    return [
        f"{id_} {check}: {verdict}"
        for id_, check, verdict in _open_findings(report)
        if (id_, check, verdict) not in known
    ]


def _open_findings(report: CheckReport) -> Iterator[tuple[str, str, Verdict]]:
    for one in report.requirements:
        if one.level == "MUST" and one.verdict in OPEN:
            open_findings = [found for found in one.findings if found.verdict in OPEN]
            yield from ((one.id, found.check, found.verdict) for found in open_findings)
            if not open_findings:
                yield one.id, "", one.verdict


def exit_code_beside(report: CheckReport, baseline: CheckReport) -> ExitCode:
    """The exit code if only new findings count. A run that was cut short, or an expired waiver, always counts."""
    found = {one.rpartition(" ")[2] for one in new_findings(report, baseline)}
    if Verdict.FAIL in found or _has_wrong_waiver(report):
        return 1
    if Verdict.ERROR in found:
        return 3
    return 4 if Verdict.NOT_TESTED in found or not report.complete else 0


def _has_wrong_waiver(report: CheckReport) -> bool:
    """Whether a waiver has expired or is unnecessary."""
    if report.certificate is None:
        return False
    verdicts = {one.id: one.verdict for one in report.requirements}
    judged = report.certificate.judged
    return any(one.until < judged or verdicts.get(one.id) is Verdict.PASS for one in report.certificate.waivers)
