"""`drahealth verify` and `drahealth diff`: a report beside its evidence, and beside another report."""

import hashlib
from collections.abc import Sequence
from pathlib import Path

from drahealth.fakes.program.console import standard_output
from drahealth.suites.certify_command.files import parsed_report, read_bytes, read_report
from drahealth.suites.certify_command.program import judged
from drahealth.suites.certifying.certificate.comparison import Difference, differences
from drahealth.suites.certifying.report.document import Report
from drahealth.suites.checking.evidence import EditedEvidenceError, EvidenceError, load_evidence
from drahealth.suites.errors import ConfigurationError


def verify(report_path: Path, evidence_path: Path) -> int:
    """Judges the evidence again, and compares. Returns 0 if the report says the same, and 1 if it differs.

    Returns 4 if another version or ledger judged the report: then only the verdicts are compared.

    Raises ConfigurationError for files that are no report or no evidence.
    """
    report = parsed_report(read_bytes(report_path), report_path)
    certificate = report.certificate
    if certificate is None:
        raise ConfigurationError(
            f"{report_path} is a report of `drahealth check`",
            "pass a report of `drahealth certify`, or use `drahealth judge`",
        )
    content = read_bytes(evidence_path)
    try:
        evidence = load_evidence(content)
    except EditedEvidenceError as error:
        return _fail(f"{evidence_path} is not what drahealth wrote: {error}")
    except EvidenceError as error:
        raise ConfigurationError(f"{evidence_path}, {error}", "pass the evidence.jsonl of the report") from None
    if (digest := hashlib.sha256(content).hexdigest()) != certificate.evidence_sha256:
        return _fail(
            f"{report_path} is the report of other evidence: it names {certificate.evidence_sha256[:8]}, "
            f"{evidence_path} has {digest[:8]}"
        )
    _, again = judged(evidence, digest, certificate.waivers, certificate.judged, report.rerun)
    assert again.certificate
    judges = [(one.drahealth, one.ledger_sha256) for one in (certificate, again.certificate)]
    found = differences(report, again, same_run=True) if judges[0] == judges[1] else _verdicts(report, again)
    if not found and judges[0] != judges[1]:
        _print("incomplete: same verdicts, but another version of drahealth or of the ledger judged the report")
        for what, (version, ledger) in zip(("report", "here"), judges, strict=True):
            _print(f"  {what}: drahealth {version}, ledger {ledger[:8]}")
        return 4
    if found:
        return _fail(f"{report_path} differs from its evidence", found, ("the report has", "the evidence gives"))
    _print(f"verified: {certificate.text}")
    return 0


def show_diff(first: Path, second: Path) -> int:
    """Prints what differs between two reports. Returns 0 if they say the same, otherwise 1."""
    found = differences(read_report(first), read_report(second))
    for one in found:
        _print(f"{one.where}: {one.first} -> {one.second}")
    if not found:
        _print("no difference")
    return 1 if found else 0


def _verdicts(first: Report, second: Report) -> list[Difference]:
    """The verdicts that differ on requirements that both ledgers have."""
    ours = {one.id: one.verdict for one in second.requirements}
    return [
        Difference(f"{one.id}.verdict", str(one.verdict), str(ours[one.id]))
        for one in first.requirements
        if ours.get(one.id, one.verdict) is not one.verdict
    ]


def _fail(what: str, found: Sequence[Difference] = (), sides: tuple[str, str] = ("", "")) -> int:
    _print(f"not verified: {what}")
    for one in found:
        _print(f"  {one.where}: {sides[0]} {one.first}, {sides[1]} {one.second}")
    return 1


def _print(line: str) -> None:
    standard_output().print(line, soft_wrap=True, markup=False, highlight=False)
