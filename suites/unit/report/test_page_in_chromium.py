"""The page in a browser: no messages on the console, no sideways scrolling, filters that work without scripts."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from drahealth.proto.values import Health
from drahealth.suites.report.check_report import check_report
from drahealth.suites.report.page import page_of
from drahealth.suites.report.page_view import check_column
from drahealth.suites.report.result_files import read_files
from drahealth.suites.unit.driver_checks.healthy_run import healthy_run
from drahealth.suites.unit.report.chromium import PROGRAM, Page, Theme, chromium
from drahealth.suites.unit.report.recorded_runs import write_run
from drahealth.suites.unit.report.reports import RERUN, failing, summary_of
from drahealth.suites.unit.suites.histories import closed, history, opened, report, status

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(PROGRAM is None, reason="Chromium is not installed; on Debian: apt install chromium"),
]
SHOWN_ROWS = "[...document.querySelectorAll('tr.row')].filter(row => row.offsetHeight > 0).map(row => row.id)"
TOO_WIDE = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


@pytest.fixture(scope="module")
async def chromium_page() -> AsyncIterator[Page]:
    """The tab of a browser that all tests share: its start takes most of the time of a test."""
    async with chromium() as page:
        yield page


@pytest.fixture
def browser(chromium_page: Page) -> Page:
    """The tab, without the messages of earlier tests."""
    chromium_page.problems.clear()
    return chromium_page


@pytest.fixture(params=["one result", "two results", "runs of scenarios"])
def file(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A page of a driver that violates PLUGIN-18, also beside a healthy one; or of two runs of scenarios."""
    if request.param == "runs of scenarios":
        records = history(opened(), report(timeout=2), 9, status(Health.UNKNOWN), report(Health.UNHEALTHY), 1, closed())
        runs = [write_run(tmp_path / f"{name}.json", {"test_a": records, "test_b": records}) for name in ("kep", "old")]
        path = tmp_path / "page.html"
        path.write_text(page_of(read_files(runs).columns()), encoding="utf-8")
        return path
    summary, evidence = failing()
    results = [check_column(check_report(summary, evidence, RERUN), evidence)]
    if request.param == "two results":
        results.append(check_column(check_report(summary_of(healthy_run()), healthy_run(), RERUN), name="healthy.json"))
    path = tmp_path / "page.html"
    path.write_text(page_of(results), encoding="utf-8")
    return path


async def test_page_fits_each_width_and_theme_without_messages(browser: Page, file: Path) -> None:
    too_wide = {}
    for width in (400, 1400):
        for theme in ("light", "dark"):
            chosen: Theme = "dark" if theme == "dark" else "light"
            await browser.open(file, width=width, theme=chosen)
            too_wide[width, theme] = await browser.value(TOO_WIDE)
    assert set(too_wide.values()) == {0}, too_wide
    assert browser.problems == []


async def test_theme_changes_the_background_and_print_is_light(browser: Page, file: Path) -> None:
    found = []
    for theme, media in (("light", "screen"), ("dark", "screen"), ("dark", "print")):
        chosen: Theme = "dark" if theme == "dark" else "light"
        await browser.open(file, width=1400, theme=chosen, media=media)
        found.append(await browser.value("getComputedStyle(document.body).backgroundColor"))
    assert found == ["rgb(255, 255, 255)", "rgb(13, 17, 23)", "rgb(255, 255, 255)"]


@pytest.mark.parametrize("file", ["one result", "two results"], indirect=True)
async def test_checkboxes_filter_the_table_without_scripts(browser: Page, file: Path) -> None:
    await browser.open(file, width=1400, theme="light")
    for verdict in ("pass", "static", "not-applicable"):
        await browser.value(f"document.querySelector('input.f-{verdict}')?.click()")
    assert await browser.value(SHOWN_ROWS) == ["PLUGIN-18"]
