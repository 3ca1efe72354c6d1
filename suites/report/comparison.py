"""Compares reports: with a judgement of the same evidence, with each other, and with a baseline. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from drahealth.suites.driver_checks.certificate import OPEN
from drahealth.suites.driver_checks.summary import ExitCode
from drahealth.suites.driver_checks.verdicts import Verdict
from drahealth.suites.report.document import Report, RequirementResult, plain


@dataclass(frozen=True, slots=True)
class Difference:
    """One value that two reports do not share."""

    where: str
    """Path of the value, such as `PLUGIN-05.verdict`."""
    first: str
    second: str


_ABSENT = "absent"
_RUN = {"started", "experiments"}
"""What differs between any two runs."""


def differences(first: Report, second: Report, *, same_run: bool = False) -> list[Difference]:
    """What differs, in the order of the reports.

    For two reports of the same run everything counts; otherwise what was checked, and the verdicts.
    """
    return list(_same_run(first, second) if same_run else _other_run(first, second))


def _same_run(first: Report, second: Report) -> Iterator[Difference]:
    one, other = plain(first), plain(second)
    by_id = [{entry["id"]: entry for entry in side.pop("requirements")} for side in (one, other)]
    yield from _values("", one, other)
    yield from _values("", *by_id)


def _other_run(first: Report, second: Report) -> Iterator[Difference]:
    one, other = plain(first), plain(second)
    yield from _values("run", *({k: v for k, v in side["run"].items() if k not in _RUN} for side in (one, other)))
    old, new = ({name: str(each.verdict) for name, each in _by_id(report).items()} for report in (first, second))
    yield from _values("", old, new)


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


def _by_id(report: Report) -> dict[str, RequirementResult]:
    return {one.id: one for one in report.requirements}


def new_findings(report: Report, baseline: Report) -> list[str]:
    """The findings on MUSTs that prevent a certificate, and that the baseline did not have: ID, check and verdict."""
    known = set(_findings(baseline))
    return [
        f"{id_} {check}: {verdict}" for id_, check, verdict in _findings(report) if (id_, check, verdict) not in known
    ]


def _findings(report: Report) -> Iterator[tuple[str, str, Verdict]]:
    for one in report.requirements:
        if one.level == "MUST" and one.verdict in OPEN:
            open_findings = [found for found in one.findings if found.verdict in OPEN]
            yield from ((one.id, found.check, found.verdict) for found in open_findings)
            if not open_findings:
                yield one.id, "", one.verdict


def exit_code_beside(report: Report, baseline: Report) -> ExitCode:
    """The exit code if only new findings count. A run that was cut short, or an expired waiver, always counts."""
    found = {one.rpartition(" ")[2] for one in new_findings(report, baseline)}
    if Verdict.FAIL in found or _has_wrong_waiver(report):
        return 1
    if Verdict.ERROR in found:
        return 3
    return 4 if Verdict.NOT_TESTED in found or not report.complete else 0


def _has_wrong_waiver(report: Report) -> bool:
    """Whether a waiver has expired or is unnecessary."""
    if report.certificate is None:
        return False
    verdicts = {one.id: one.verdict for one in report.requirements}
    judged = report.certificate.judged
    return any(one.until < judged or verdicts.get(one.id) is Verdict.PASS for one in report.certificate.waivers)
