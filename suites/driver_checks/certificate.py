"""What a run certifies: a level, with the health APIs, releases, version and ledger that it holds for. Pure."""

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import date

from drahealth.manager.device_plugins import API as DEVICE_PLUGIN_API
from drahealth.proto.device_plugin import VERSION
from drahealth.proto.events import FaultInjected, ListReceived
from drahealth.proto.health_apis import HEALTH_APIS
from drahealth.proto.quoting import one_line
from drahealth.proto.version import __version__
from drahealth.suites.driver_checks.evidence import Evidence
from drahealth.suites.driver_checks.observed import driver_name
from drahealth.suites.driver_checks.observed_health import streams
from drahealth.suites.driver_checks.summary import Outcome, Summary, Waiver
from drahealth.suites.driver_checks.verdicts import GRADES, Level, Verdict, requirements

OPEN = (Verdict.FAIL, Verdict.NOT_TESTED, Verdict.ERROR)
"""The verdicts on a MUST that prevent a certificate."""
_SHOWN = 8
"""Characters of a digest in a text."""
_HEALTH = ".DRAResourceHealth"
_FAULTS = ("faults", "plugin-faults")
"""The experiments that cause each fault of the driver profile."""


@dataclass(frozen=True, slots=True)
class Certificate:
    """The certificate of a run: whether the driver is certified, and for what."""

    certified: bool
    """Whether no applicable MUST of the level has FAIL, NOT_TESTED or ERROR."""
    text: str
    """The verdict in words, with the driver, level, health APIs and releases."""
    level: Level
    """The level: how many requirements were judged."""
    driver: str
    """The name that the driver gave in GetInfo, or the resource of a device plugin; empty without a registration."""
    health_apis: tuple[str, ...]
    """The health APIs on which the driver reported."""
    releases: str
    """The Kubernetes minors of the judged requirements, such as 1.34-1.37."""
    drahealth: str
    """Version of drahealth that judged the evidence."""
    ledger_sha256: str
    """Digest of the content of the ledger."""
    evidence_sha256: str
    """Digest of the evidence file."""
    judged: date
    """The day on which the evidence was judged, which decides whether a waiver has expired."""
    waivers: tuple[Waiver, ...]
    """The accepted violations that the verdict takes into account."""


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
