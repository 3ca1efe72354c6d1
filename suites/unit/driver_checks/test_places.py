"""Placeholders in a driver's command line."""

from dataclasses import replace
from pathlib import Path
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drahealth.suites.driver_checks.subject.places import NAMES, Places, check_placeholders, filled
from drahealth.suites.errors import ConfigurationError

PLACES = Places(Path("/l"), Path("/r"), Path("/p"), Path("/c"), Path("/k"), "node-a", "gpu.example.com")


def test_every_placeholder_has_a_value() -> None:
    assert tuple(PLACES.placeholders()) == NAMES


def test_placeholders_are_replaced_anywhere_in_a_word() -> None:
    assert filled("--dir={driver_dir}/{node_name}", PLACES.placeholders()) == "--dir=/p/gpu.example.com/node-a"


def test_unknown_placeholder_is_rejected() -> None:
    with pytest.raises(ConfigurationError, match="registry_dirs"):
        check_placeholders(["--dir={registry_dirs}"])


@given(st.text().filter(lambda text: "{" not in text or "}" not in text))
def test_text_without_placeholders_is_unchanged(text: str) -> None:
    check_placeholders([text])
    assert filled(text, PLACES.placeholders()) == text


def test_next_instance_differs_in_its_pod_alone() -> None:
    first, second = PLACES.placeholders(), replace(PLACES, instance=2).placeholders()
    assert {name for name in NAMES if first[name] != second[name]} == {"pod_uid", "instance"}
    assert UUID(first["pod_uid"]) == UUID(PLACES.pod_uid)
