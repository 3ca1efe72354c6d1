"""JSON from clients."""

import pytest

from drahealth.fakes.cluster.api_server.body_decoding import DEPTH_LIMIT, parse_json


def test_values_of_the_greatest_depth_are_parsed() -> None:
    nested = b"[" * DEPTH_LIMIT + b"]" * DEPTH_LIMIT
    assert parse_json(b'{"a": [1, null]}') == {"a": [1, None]}
    assert parse_json(nested) is not None


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"{", id="truncated"),
        pytest.param(b"NaN", id="NaN"),
        pytest.param(b'{"a": Infinity}', id="Infinity"),
        pytest.param(b"\xff", id="no UTF-8"),
        pytest.param(b"[" * 101 + b"]" * 101, id="deep lists"),
        pytest.param(b'{"a":' * 101 + b"1" + b"}" * 101, id="deep objects"),
        pytest.param(b"[" * 10**6, id="a million lists"),
    ],
)
def test_other_values_are_rejected(text: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_json(text)
