"""Log lines about requests that the API server cannot read."""

import pytest

from drahealth.fakes.cluster.api import ApiError
from drahealth.fakes.cluster.api_server.messages import RejectionLog

BAD = ApiError(400, "BadRequest", "the body is not JSON: line 1")


def test_a_cause_is_logged_again_after_a_thousand_others(caplog: pytest.LogCaptureFixture) -> None:
    log = RejectionLog()
    for number in range(1001):
        log.rejected(f"client {number}", "POST /a", BAD)
    log.rejected("client 1000", "POST /a", BAD)
    log.rejected("client 0", "POST /a", BAD)
    assert len(caplog.records) == 1002


def test_details_of_a_cause_do_not_count(caplog: pytest.LogCaptureFixture) -> None:
    log = RejectionLog()
    log.rejected("client", "POST /a", BAD)
    log.rejected("client", "POST /b", ApiError(400, "BadRequest", "the body is not JSON: line 2"))
    for path in ("/a", "/b"):
        log.rejected("client", f"OPTIONS {path}", ApiError(405, "MethodNotAllowed", f"OPTIONS {path}: not allowed"))
    assert len(caplog.records) == 2


@pytest.mark.parametrize("status", [404, 409, 422])
def test_answers_to_readable_requests_are_not_logged(caplog: pytest.LogCaptureFixture, status: int) -> None:
    RejectionLog().rejected("client", "GET /a", ApiError(status, "Reason", "message"))
    assert caplog.records == []
