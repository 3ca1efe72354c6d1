"""One test for each requirement that binds what is checked: a DRA driver or a device plugin."""

import warnings

import pytest

from drahealth.suites.driver_checks.all_checks import CHECKS
from drahealth.suites.driver_checks.summary import Summary
from drahealth.suites.driver_checks.verdicts import Verdict


@pytest.mark.xdist_group("drahealth-driver")
def test_driver_meets(requirement: str, summary: Summary) -> None:
    judgement = next(one for one in summary.judgements if one.requirement.id == requirement)
    findings = [(name, finding) for name, finding in judgement.findings.items() if finding.verdict is judgement.verdict]
    found = "\n".join(f"{finding.line}\n  fix: {CHECKS[name].fix}" for name, finding in findings)
    text = f"{judgement.verdict} {requirement}: {judgement.requirement.sentence}\n{found}"
    if judgement.verdict in (Verdict.NOT_APPLICABLE, Verdict.STATIC):
        pytest.skip(text)
    if judgement.verdict in (Verdict.FAIL, Verdict.NOT_TESTED, Verdict.ERROR):
        if judgement.requirement.level == "MUST":
            pytest.fail(text, pytrace=False)
        warnings.warn(text, stacklevel=1)
