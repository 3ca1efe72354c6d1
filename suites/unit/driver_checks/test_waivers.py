"""Waivers: a file of accepted violations, and their effect on judgements."""

from contextlib import suppress
from datetime import date
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drahealth.suites.driver_checks.judge import Judgement
from drahealth.suites.driver_checks.summary import parse_waivers, read_waivers, waive
from drahealth.suites.driver_checks.verdicts import Finding, Verdict, Waiver, failed, not_tested, passed, requirements
from drahealth.suites.errors import ConfigurationError

ENTRY = """
[[waiver]]
id = "PLUGIN-18"
reason = "the vendor library keeps its socket"
link = "https://example.com/7"
owner = "gpu-team"
until = 2026-12-31
"""
WAIVER = Waiver(
    "PLUGIN-18", "the vendor library keeps its socket", "https://example.com/7", "gpu-team", date(2026, 12, 31)
)
LAST_DAY = date(2026, 12, 31)


def judged(finding: Finding) -> list[Judgement]:
    return [Judgement(requirements()["PLUGIN-18"], {"driver-ends-without-sockets": finding})]


def test_waivers_are_read_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "waivers.toml"
    file.write_text(ENTRY)
    assert read_waivers(file) == (WAIVER,)


@pytest.mark.parametrize(
    "text",
    [
        "[[waiver]",
        "\xff",
        'waiver = "x"',
        "waiver = [1]",
        "[waivers]",
        ENTRY.replace("PLUGIN-18", "PLUGIN-180"),
        ENTRY.replace("owner", "owners"),
        ENTRY.replace('owner = "gpu-team"', ""),
        ENTRY.replace('"gpu-team"', '" "'),
        ENTRY.replace("2026-12-31", '"2026-12-31"'),
        ENTRY.replace("2026-12-31", "2026-12-31T10:00:00"),
        ENTRY + ENTRY,
    ],
)
def test_invalid_file_is_rejected_with_its_name(text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"^waivers\.toml: "):
        parse_waivers(text.encode("latin-1"), "waivers.toml")


@given(st.binary(max_size=80))
def test_garbage_is_rejected_or_has_no_waivers(data: bytes) -> None:
    with suppress(ConfigurationError):
        assert parse_waivers(data, "waivers.toml") == ()


def test_misspelled_requirement_gets_a_suggestion() -> None:
    with pytest.raises(ConfigurationError) as raised:
        parse_waivers(ENTRY.replace("PLUGIN-18", "PLUGN-18").encode(), "waivers.toml")
    assert "PLUGIN-18" in raised.value.hint


@pytest.mark.parametrize(
    ("finding", "today", "verdict", "problems"),
    [
        (failed("no socket", "a socket"), LAST_DAY, Verdict.WAIVED, 0),
        (failed("no socket", "a socket"), date(2027, 1, 1), Verdict.FAIL, 1),
        (passed("no socket"), LAST_DAY, Verdict.PASS, 1),
        (passed("no socket"), date(2027, 1, 1), Verdict.PASS, 1),
        (not_tested("no SIGTERM"), LAST_DAY, Verdict.NOT_TESTED, 0),
    ],
)
def test_waiver_accepts_a_failure_until_its_last_day(
    finding: Finding, today: date, verdict: Verdict, problems: int
) -> None:
    found, sentences = waive(judged(finding), [WAIVER], today)
    assert ([one.verdict for one in found], len(sentences)) == ([verdict], problems)


def test_requirement_without_a_waiver_still_fails() -> None:
    found, problems = waive(judged(failed("no socket", "a socket")), [], LAST_DAY)
    assert ([one.verdict for one in found], problems) == ([Verdict.FAIL], ())
