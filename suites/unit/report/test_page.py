"""The page: its content, its escaping of driver text, and its size."""

import base64
import hashlib
import re
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drahealth.proto.events import Event, ReportReceived
from drahealth.proto.values import DeviceHealth, Health
from drahealth.suites.driver_checks.evidence import Evidence
from drahealth.suites.driver_checks.summary import Summary
from drahealth.suites.report.check_report import check_report
from drahealth.suites.report.document import CheckReport
from drahealth.suites.report.page import page
from drahealth.suites.unit.driver_checks.certificates import certified, core_run
from drahealth.suites.unit.driver_checks.evidence_of import evidence_at
from drahealth.suites.unit.driver_checks.healthy_run import DRIVER, SOCKET, healthy_run
from drahealth.suites.unit.report.html_parts import Parts
from drahealth.suites.unit.report.reports import RERUN, failing, summaries, summary_of

LIMIT = 4_000_000
"""Characters of the longest page of one run, as docs/drivers.md promises."""
HOSTILE = [
    "</script><script>alert(1)</script>",
    "\"'><img src=x onerror=alert(1)>",
    "</style></svg></title><b>",
    "{{ 7 * 7 }} {% raw %}",
    "<!-- -->]]>",
    "\x00\x1b[31m\x07\u202e\u2028",
]
ALLOWED = {
    *("html", "head", "meta", "title", "style", "body", "header", "main", "footer", "section", "p", "h1", "h2", "h3"),
    *("ul", "ol", "li", "dl", "dt", "dd", "div", "span", "a", "code", "form", "fieldset", "legend", "label", "input"),
    *("table", "caption", "thead", "tbody", "tr", "th", "td", "details", "summary"),
    *("svg", "defs", "pattern", "rect", "circle", "line", "text"),
}


def report(summary: Summary, evidence: Evidence) -> CheckReport:
    return check_report(summary, evidence, RERUN)


def named(name: str, message: str = "") -> Evidence:
    """The healthy run with one more device in each report."""

    def edit(_: str, event: Event) -> Event:
        if isinstance(event, ReportReceived):
            return replace(event, devices=(*event.devices, DeviceHealth(name, name, Health.UNHEALTHY, message or name)))
        return event

    return healthy_run(edit)


def test_page_begins_with_the_verdict_and_its_reason() -> None:
    summary, evidence = failing()
    parts = Parts(page(report(summary, evidence), evidence))
    (verdict,) = parts.of("h1")
    assert verdict.text.endswith("fails")
    assert [one.text.strip() for one in parts.of("ul", "reasons")] == ["The driver violates PLUGIN-18."]


def test_certificate_page_names_the_verdict_and_its_scope() -> None:
    _, found = certified(core_run())
    parts = Parts(page(found))
    verdict = parts.of("h1")[0].text[2:]
    assert f"{verdict}, {parts.of('p', 'scope')[0].text}" == found.verdict
    assert parts.of("title")[0].text == f"{verdict} - drahealth"


def test_table_begins_with_the_violated_requirement_and_explains_it() -> None:
    summary, evidence = failing()
    row = Parts(page(report(summary, evidence), evidence)).of("tr", "row")[0]
    words = ["PLUGIN-18", "MUST", "expected", "gpu-reg.sock", "fix", RERUN.replace("REQUIREMENT", "PLUGIN-18")]
    assert [word for word in words if word not in row.text] == []


def test_table_has_each_requirement_once() -> None:
    summary = summary_of(healthy_run())
    rows = Parts(page(report(summary, healthy_run()))).of("tr", "row")
    assert sorted(str(row.attributes["id"]) for row in rows) == sorted(one.requirement.id for one in summary.judgements)


def test_page_needs_neither_network_nor_scripts() -> None:
    text = page(report(*failing()), failing()[1])
    parts = Parts(text)
    (policy,) = (one for one in parts.of("meta") if one.attributes.get("http-equiv") == "Content-Security-Policy")
    (style,) = parts.of("style")
    digest = base64.b64encode(hashlib.sha256(style.text.encode()).digest()).decode()
    assert policy.attributes["content"] == (
        f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    )
    assert {one.tag for one in parts.elements} <= ALLOWED
    assert re.findall(r"@import|url\((?!#)", style.text) == []


def test_page_without_evidence_has_an_over_time_section_without_lanes() -> None:
    parts = Parts(page(report(*failing())))
    assert (parts.of("svg", "bar"), len(parts.of("section", "over-time"))) == ([], 1)


def test_bars_have_labels_for_screen_readers() -> None:
    evidence = healthy_run()
    bars = Parts(page(report(summary_of(evidence), evidence), evidence)).of("svg", "bar")
    assert [bar for bar in bars if not (bar.attributes.get("aria-label") or "").startswith("node-a/gpu-")] == []
    assert "Unhealthy from 18 s" in str(bars[0].attributes["aria-label"])


@pytest.mark.parametrize("text", HOSTILE)
def test_page_escapes_hostile_text_of_a_driver(text: str) -> None:
    evidence = named(text)
    made = page(report(summary_of(evidence), evidence), evidence)
    parts = Parts(made)
    handlers = [name for one in parts.elements for name in one.attributes if name.startswith("on")]
    assert ({one.tag for one in parts.elements} <= ALLOWED, handlers) == (True, [])
    assert [char for char in made if not char.isprintable() and char != "\n"] == []


@given(summaries(st.text(st.characters(categories=["P", "L", "S", "Cc", "Cf"]))))
@settings(max_examples=30, deadline=None)
def test_page_of_any_finding_has_only_allowed_elements(summary: Summary) -> None:
    parts = Parts(page(report(summary, healthy_run())))
    assert {one.tag for one in parts.elements} <= ALLOWED


def test_javascript_link_of_an_edited_report_is_not_rendered() -> None:
    found = report(*failing())
    edited = replace(found, requirements=tuple(replace(one, link="javascript:alert(1)") for one in found.requirements))
    assert "javascript:" not in page(edited)


def test_page_with_messages_of_a_mebibyte_is_small() -> None:
    evidence = named("gpu-9", "\u202e<" * 2**19)
    assert len(page(report(summary_of(evidence), evidence), evidence)) < LIMIT


def test_page_with_10000_devices_is_small_and_counts_omitted_devices() -> None:
    devices = tuple(DeviceHealth("p" * 60, f"gpu-{n}", Health.UNHEALTHY, "'" * 1024) for n in range(10_000))
    reports = [
        (float(at), "watch", ReportReceived(DRIVER, SOCKET, "w0", 9, devices[: -at or None])) for at in range(4, 9)
    ]
    run = healthy_run()
    records = [*((one.at, one.experiment, one.what) for one in run.records), *reports]
    evidence = evidence_at(*records)
    made = page(report(summary_of(run), evidence), evidence)
    (left_out, *_) = Parts(made).of("p", "left-out")
    assert (len(made) < LIMIT, left_out.text.split()[0]) == (True, "9959")
