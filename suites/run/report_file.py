"""Whether a run of scenarios is complete, and its report file."""

from collections.abc import Generator, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from drahealth.suites.report.document import to_json
from drahealth.suites.report.run_report import Run
from drahealth.suites.run.options import now
from drahealth.suites.run.scenario import scenario_of, scenarios, scenarios_folder

# Which scenarios a run planned, and why it ended before all of them had run.
#
# pytest itself reports an interrupted run as one with fewer tests. So at the end this plugin adds a failed test
# report for a scenario that did not end, and one for the run. All reporters of pytest show them, JUnit XML among
# them.

NODE_ID = "drahealth.run::complete run"
"""The test that stands for the run itself. It is reported only if the run ended early."""


@dataclass(slots=True)
class Plan:
    """The scenarios that a process has collected."""

    planned: int = 0
    deselected: int = 0


@dataclass(eq=False)
class Completeness:
    """A pytest plugin. It keeps `run.planned`, `.deselected`, `.interrupted` and `.stopped` up to date."""

    run: Run
    config: pytest.Config
    plan: Plan = field(default_factory=Plan)
    _deselected: list[pytest.Item] = field(default_factory=list)
    _begun: dict[tuple[str, Any], pytest.TestReport] = field(default_factory=dict)
    """The setup reports of scenarios that have not ended, by test and worker."""
    _collected: int = 0
    """Tests that the workers of a distributed run have collected."""

    def pytest_deselected(self, items: Iterable[pytest.Item]) -> None:
        self._deselected += items

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        selected, left_out = _scenarios(session.items), _scenarios(self._deselected)
        self.plan.planned = len(selected)
        self.plan.deselected = len(left_out) + _not_collected([*selected, *left_out])
        self.run.planned, self.run.deselected = self.plan.planned, self.plan.deselected

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, node: Any, ids: list[str]) -> None:
        self._collected = len(ids)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Reports of workers have their plan: the controller of a distributed run collects nothing itself."""
        test = report.nodeid, getattr(report, "node", None)
        if report.when not in ("setup", "call"):  # "???" is pytest-xdist's report of a test whose worker has ended
            self._begun.pop(test, None)
        if not hasattr(report, "drahealth_plan"):
            return
        plan = Plan(*report.drahealth_plan)
        self.run.planned = max(self.run.planned, plan.planned)
        self.run.deselected = max(self.run.deselected, plan.deselected)
        if report.when == "setup":
            self._begun[test] = report

    def pytest_keyboard_interrupt(self, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
        self.run.stopped = str(excinfo.value) or "a signal interrupted the run"

    def pytest_internalerror(self, excrepr: object) -> None:
        self.run.stopped = f"internal error: {str(excrepr).strip().splitlines()[-1]}"

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> Generator[None]:
        if not hasattr(self.config, "workerinput"):
            self._end(session, exitstatus)
        yield

    def _end(self, session: pytest.Session, exitstatus: int) -> None:
        self.run.interrupted = exitstatus in (pytest.ExitCode.INTERRUPTED, pytest.ExitCode.INTERNAL_ERROR)
        if self.run.interrupted and not self.run.planned:
            self.run.planned = self._collected
        self.run.stopped = self.run.stopped or str(session.shouldfail or "")
        if not self.run.ended_early or self.config.option.collectonly:
            return
        for report in (*map(_not_ended, self._begun.values()), _of_the_run(self.run.reason())):
            self.config.hook.pytest_runtest_logreport(report=report)
        self._begun.clear()


def _scenarios(items: Iterable[pytest.Item]) -> list[pytest.Item]:
    return [item for item in items if scenario_of(getattr(item, "function", None))]


def _not_collected(collected: Iterable[pytest.Item]) -> int:
    """The number of our scenarios that a run with some of them did not even collect."""
    ours = set(_ours(collected))
    return len({scenario.name for scenario in scenarios()} - ours) if ours else 0


def _ours(items: Iterable[pytest.Item]) -> Iterator[str]:
    folder, seen = scenarios_folder(), dict[Path, bool]()
    for item in items:
        parent = item.path.parent
        if seen.setdefault(parent, parent.samefile(folder)):
            yield getattr(item, "originalname", item.name)


def _not_ended(setup: pytest.TestReport) -> pytest.TestReport:
    """The report of a scenario that had begun when the run was interrupted."""
    report = pytest.TestReport(
        nodeid=setup.nodeid,
        location=setup.location,
        keywords=setup.keywords,
        outcome="failed",
        longrepr="the run was interrupted before this scenario ended",
        when="teardown",
        user_properties=setup.user_properties,
    )
    for name in ("node", "worker_id", "item_index"):  # pytest-xdist identifies tests by them
        if hasattr(setup, name):
            setattr(report, name, getattr(setup, name))
    return report


def _of_the_run(reason: str) -> pytest.TestReport:
    path = NODE_ID.partition("::")[0]
    return pytest.TestReport(
        nodeid=NODE_ID,
        location=(path, None, NODE_ID),
        keywords={},
        outcome="failed",
        longrepr=f"the run is not complete: {reason}",
        when="setup",
    )


# Writes the report file of a run: after each scenario, and at the end.
#
# Until the end, the file is that of an interrupted run. So after SIGKILL no file of an earlier run is left to
# mislead.


class ReportFile:
    """A pytest plugin. Workers of a distributed run have none."""

    def __init__(self, path: Path, run: Run) -> None:
        self._path = path
        self._run = run
        self._write_unfinished()

    @pytest.hookimpl(trylast=True)
    def pytest_collection_finish(self) -> None:
        self._write_unfinished()

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if hasattr(report, "drahealth"):
            self._write_unfinished()

    @pytest.hookimpl(wrapper=True)
    def pytest_sessionfinish(self, exitstatus: int) -> Generator[None]:
        """Writes the report when all other plugins have ended."""
        yield
        code = int(exitstatus) if self._run.conditions.command == "pytest" else None
        try:
            self._path.write_text(to_json(self._run.report(ended=now(), exit_code=code)))
        except OSError as error:
            pytest.exit(f"drahealth: cannot write {self._path}: {error.strerror}", pytest.ExitCode.INTERNAL_ERROR)

    def _write_unfinished(self) -> None:
        if self._path.exists() and not self._path.is_file():
            return
        unfinished = replace(self._run, interrupted=True, stopped="the run did not reach its end")
        with suppress(OSError):  # an error at the end of the run
            self._path.write_text(to_json(unfinished.report(ended=None, exit_code=3)))
