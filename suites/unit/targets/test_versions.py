"""Parsing of versions, and the text of errors."""

import pytest

from drahealth.suites.errors import ConfigurationError, HarnessError
from drahealth.suites.targets.versions import parse_version


@pytest.mark.parametrize(
    ("text", "version"),
    [("1.37.1", "1.37.1"), ("v1.37.1", "1.37.1"), (" 1.34.0 ", "1.34.0"), ("v1.38.0-alpha.2", "1.38.0-alpha.2")],
)
def test_a_version_may_have_a_leading_v(text: str, version: str) -> None:
    assert parse_version(text) == version


@pytest.mark.parametrize("text", ["1.37", "banana", "", "1.37.1.2", "1.037.1", "latest", "1.37.1-dirty", "../1.37.1"])
def test_an_invalid_version_is_rejected_with_an_example(text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"got .*; for example 1\.37\.1$"):
        parse_version(text)


def test_error_text_joins_message_and_hint_in_one_sentence() -> None:
    assert str(HarnessError("The disk is full.", "make room")) == "The disk is full; make room"
    assert str(HarnessError("The disk is full")) == "The disk is full"
