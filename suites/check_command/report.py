"""The reports of a check as files: JSON, JUnit XML, and annotations for GitHub Actions. Pure."""

import json
import re
from xml.etree import ElementTree as ET

from drahealth.suites.certifying.report.document import Report
from drahealth.suites.certifying.report.reading import plain
from drahealth.suites.checking.evidence import Evidence
from drahealth.suites.checking.judge import Judgement
from drahealth.suites.checking.summary import Summary
from drahealth.suites.checking.verdicts import Finding, Verdict


def to_json(report: Report) -> str:
    """The report as JSON."""
    return json.dumps(plain(report), indent=2)


def to_junit(summary: Summary, evidence: Evidence) -> str:
    """The report as JUnit XML: a test case for each requirement. A run that is not complete has an error."""
    command = "check" if evidence.header.level == "check" else "certify"
    suite = ET.Element("testsuite", name=f"drahealth {command}")
    for name, value in (("verdict", summary.verdict), ("drahealth", evidence.header.drahealth)):
        properties = suite.find("properties")
        properties = ET.SubElement(suite, "properties") if properties is None else properties
        ET.SubElement(properties, "property", name=name, value=value)
    for judgement in summary.judgements:
        _case(suite, judgement, command)
    if not evidence.complete:
        case = ET.SubElement(suite, "testcase", classname=f"drahealth.{command}", name="complete run")
        ET.SubElement(case, "error", message="the run did not reach its end")
    suite.set("tests", str(len(suite.findall("testcase"))))
    for outcome, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        suite.set(outcome, str(len(suite.findall(f"testcase/{tag}"))))
    ET.indent(suite)
    return ET.tostring(suite, encoding="unicode", xml_declaration=True)


def _case(suite: ET.Element, judgement: Judgement, command: str) -> None:
    requirement = judgement.requirement
    family = requirement.family.replace(" ", "-")
    case = ET.SubElement(suite, "testcase", classname=f"drahealth.{command}.{family}", name=requirement.id)
    tag = _TAGS.get(judgement.verdict)
    if judgement.verdict is Verdict.FAIL and requirement.level != "MUST":
        tag = "skipped"
    if tag:
        problem = ET.SubElement(case, tag, message=_clean(f"{judgement.verdict}: {requirement.sentence}"))
        problem.text = _clean("\n".join(map(explanation, judgement.findings.values())))
    if judgement.not_judged:
        lines = (f"{name} does not apply: {finding.seen}" for name, finding in judgement.not_judged.items())
        ET.SubElement(case, "system-out").text = _clean("\n".join(lines))


_NOT_IN_XML = re.compile("[^\t\n\x20-\ud7ff\ue000-\ufffd]")
_TAGS = {
    Verdict.FAIL: "failure",
    Verdict.ERROR: "error",
    Verdict.NOT_TESTED: "error",
    Verdict.WAIVED: "skipped",
    Verdict.NOT_APPLICABLE: "skipped",
    Verdict.STATIC: "skipped",
}


def explanation(finding: Finding) -> str:
    """A finding in one line."""
    expected = f"expected {finding.expected}; " if finding.expected else ""
    return f"{expected}seen: {finding.seen}"


def _clean(text: str) -> str:
    """Text without characters that XML 1.0 does not allow."""
    return _NOT_IN_XML.sub("?", text)


def annotations(summary: Summary) -> list[str]:
    """Workflow commands of GitHub Actions: an error for each failed MUST, a warning for each failed SHOULD."""
    lines = []
    for one in summary.judgements:
        if one.verdict in (Verdict.FAIL, Verdict.ERROR, Verdict.NOT_TESTED):
            kind = "error" if one.requirement.level == "MUST" else "warning"
            found = "; ".join(explanation(f) for f in one.findings.values() if f.verdict is one.verdict)
            lines.append(f"::{kind} title={one.requirement.id} {one.verdict}::{_escaped(found)}")
    return lines


def _escaped(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
