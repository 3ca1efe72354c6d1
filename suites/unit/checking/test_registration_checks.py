"""The checks of the registration, on evidence written by hand."""

import pytest

from drahealth.proto.events import Event, ProcessExited
from drahealth.suites.checking.checks.registration import (
    get_info_describes_a_dra_driver,
    refused_driver_can_be_registered_again,
)
from drahealth.suites.checking.verdicts import Verdict
from drahealth.suites.unit.checking.evidence_of import call, evidence_of

GET_INFO = "pluginregistration.Registration/GetInfo"
NOTIFY = "pluginregistration.Registration/NotifyRegistrationStatus"
INFO = {"type": "DRAPlugin", "name": "gpu.example.com", "supported_versions": ["v1.DRAPlugin"]}
REFUSED = ("refused-registration", call(NOTIFY, error="no"))


@pytest.mark.parametrize(
    ("info", "verdict"),
    [
        ({}, Verdict.PASS),
        ({"type": "CSIPlugin"}, Verdict.FAIL),
        ({"name": "GPU"}, Verdict.FAIL),
        ({"name": "a" * 64}, Verdict.FAIL),
        ({"supported_versions": ["1.0.0"]}, Verdict.FAIL),
    ],
)
def test_get_info_needs_type_name_and_versions(info: dict[str, object], verdict: Verdict) -> None:
    evidence = evidence_of(("registration", call(GET_INFO, response=INFO | info)))
    assert get_info_describes_a_dra_driver(evidence).verdict is verdict


def test_get_info_that_fails_is_a_failure() -> None:
    evidence = evidence_of(("registration", call(GET_INFO, code="UNIMPLEMENTED")))
    assert get_info_describes_a_dra_driver(evidence).verdict is Verdict.FAIL


@pytest.mark.parametrize(
    ("then", "verdict"),
    [
        ([call(GET_INFO, response=INFO)], Verdict.PASS),
        ([ProcessExited("refused", 7, 1, 0, ())], Verdict.PASS),
        ([call(GET_INFO, code="UNAVAILABLE")], Verdict.FAIL),
        ([], Verdict.FAIL),
    ],
)
def test_refused_driver_answers_again_or_exits(then: list[Event], verdict: Verdict) -> None:
    evidence = evidence_of(REFUSED, *(("refused-registration", event) for event in then))
    assert refused_driver_can_be_registered_again(evidence).verdict is verdict
