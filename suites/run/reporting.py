"""Reporting of scenarios in pytest: known issues, histories of failures, and the report file.

A scenario that failed only by known issues is an expected failure, with their IDs as the reason. If a known issue with
`happens = "always"` does not happen, the scenario fails: the entry is stale.
"""

import hashlib
import os
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from shlex import quote
from typing import Any

import pytest

from drahealth.fakes.cluster.api import ApiError
from drahealth.fakes.control.remote import ControlFailed
from drahealth.proto.clock import SystemClock
from drahealth.proto.health_apis import HealthApi
from drahealth.proto.history import Header, dump_lines
from drahealth.suites.errors import ConfigurationError, HarnessError, full_text
from drahealth.suites.judging import histories
from drahealth.suites.judging.diagnosis import Diagnosis
from drahealth.suites.judging.ledger import Quote, quotes, requirements
from drahealth.suites.judging.status_content import STEP_FAILED, StepFailed, Violation
from drahealth.suites.output_paths import check_histories_folder, check_output_file
from drahealth.suites.report.document import KnownViolation, Outcome, ScenarioResult, to_json
from drahealth.suites.report.run_report import Run
from drahealth.suites.run.options import now, run_of
from drahealth.suites.run.scenario import (
    STANDARD_INPUT,
    Scenario,
    case_of,
    distribute_evenly,
    id_of,
    play_of,
    scenario_of,
    scenarios,
    scenarios_folder,
    sort_longest_first,
    suffix,
)
from drahealth.suites.run.session import PLAYED, Played, Session
from drahealth.suites.story.node import Node
from drahealth.suites.targets.capabilities import Capability

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


_QUOTES = 2
"""The most statements that a failure quotes."""


class Reporting:
    """A pytest plugin for runs with scenarios. `run` collects their results."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._histories: set[Path] = set()
        try:
            if not hasattr(config, "workerinput"):
                check_output_file(config.getoption("drahealth_report"))
                check_histories_folder(config.getoption("drahealth_histories"))
            self._session = Session.of(config)
        except ConfigurationError as error:
            raise pytest.UsageError(str(error)) from None
        self.run = run_of(self._session.options, config)
        self._completeness = Completeness(self.run, config)
        config.pluginmanager.register(self._completeness, "drahealth-completeness")
        if config.getoption("xmlpath", None):
            from drahealth.suites.report.junit import JUnit

            if junit := JUnit.of(config, self.run):
                config.pluginmanager.register(junit, "drahealth-junit")
        distribute_evenly(config)
        if (path := config.getoption("drahealth_report")) and not hasattr(config, "workerinput"):
            config.pluginmanager.register(ReportFile(Path(path), self.run), "drahealth-report-file")

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Sort in a process of a distributed run. A random order that the user wants is made later."""
        if hasattr(self._config, "workerinput"):
            sort_longest_first(items, self._session.options.definition)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> None:
        self._session.start_ahead(item, nextitem)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        scenario = scenario_of(getattr(item, "function", None))
        if scenario is None:
            return report
        about, which = self._about(item), suffix(item, self._session.options)
        plan, case = self._completeness.plan, case_of(item)
        report.drahealth_plan = plan.planned, plan.deselected  # type: ignore[attr-defined]
        report.drahealth_case = case  # type: ignore[attr-defined]
        if call.when == "setup":
            item.user_properties += [("requirement", name) for name in scenario.requirements]
        played = item.stash.get(PLAYED, None)
        failure = _failure(call, played, scenario)
        problem = _error_text(report, call, failure)
        if call.when == "call" and played:
            report.duration = played.node.seconds  # it may have started before the call
        outcome: Outcome = "passed"
        if failure:
            item.user_properties += failure.properties()
        if report.failed:
            self._session.failed = True
            if self._session.cannot_start:
                item.session.shouldstop = "the target did not start"
            elif self._session.is_lost:
                item.session.shouldstop = "the target stopped working"
            outcome = "failed" if call.when == "call" and not _is_harness(call) else "error"
        if call.when == "call" and played:
            outcome, problem = self._judge(item, report, played, outcome, problem)
            item.user_properties += [("note", note) for note in played.node.notes]
        if call.when == "setup" and report.skipped and scenario.beyond(*about):
            outcome = "not applicable"
        if call.when == "call" or report.failed or outcome == "not applicable":
            file, digest = self._keep_history(played, which) if call.when == "call" and played else ("", "")
            result = ScenarioResult(
                name=f"{scenario.name}{which}",
                title=f"{scenario.title} {which}".rstrip(),
                requirements=scenario.requirements,
                outcome=outcome,
                seconds=round(report.duration, 3),
                known_issues=tuple(sorted({issue.id for issue in played.known_issues})) if played else (),
                violations=_known_violations(played) if played else (),
                broken=_broken(scenario, call, played),
                problem=problem,
                cause=failure.diagnosis.cause if failure else "",
                diagnosis=failure.diagnosis.text if failure else "",
                quotes=failure.quotes if failure else (),
                expected=failure.error.expected if failure else "",
                seen=failure.error.seen if failure else "",
                history=histories.format_history(played.node.history.records) if played and report.failed else "",
                rerun=self._rerun(item) if report.failed else "",
                beyond=scenario.beyond(*about) if outcome == "not applicable" else (),
                reason=scenario.why_not(*about) if outcome == "not applicable" else "",
                authors_step=isinstance(call.excinfo.value, StepFailed) if call.excinfo else False,
                where=getattr(call.excinfo.value, "where", "") if call.excinfo else "",
                notes=(*played.node.status_changes, *played.node.notes) if played and call.when == "call" else (),
                history_file=file,
                history_sha256=digest,
                id=id_of(item),
                node=play_of(item, self._session.options).node,
            )
            report.drahealth = asdict(result)  # type: ignore[attr-defined]
        return report

    @property
    def cannot_start(self) -> bool:
        """Whether the target did not start, so no scenario ran."""
        return self._session.cannot_start

    def has_scenarios(self, items: Iterable[pytest.Item]) -> None:
        """This process has collected scenarios. Skip those that are not applicable, with the reason."""
        self._session.has_scenarios()
        for item in items:
            scenario = scenario_of(getattr(item, "function", None))
            if scenario and (reason := scenario.why_not(*self._about(item))):
                item.add_marker(pytest.mark.skip(reason=reason))

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """A worker is about to start."""
        if environment := self._session.environment:
            environment.announce(node.workerinput)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, node: Any, ids: list[str]) -> None:
        """A worker knows what it may have to run; nothing runs before all workers do."""
        if environment := self._session.environment:
            environment.make()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Collect results. In a distributed run, the controller receives them inside the reports."""
        self._session.failed |= report.failed
        if hasattr(report, "drahealth"):
            self.run.take(report.drahealth)

    def pytest_report_collectionfinish(self) -> str:
        return f"drahealth: {self.run.about}"

    def _judge(
        self, item: pytest.Item, report: pytest.TestReport, played: Played, outcome: Outcome, problem: str
    ) -> tuple[Outcome, str]:
        """The outcome with known issues. It also attaches the history of a failure."""
        if report.passed and self._session.options.configuration.is_own_kubelet:
            fixed = dict.fromkeys(issue.id for issue in played.stale)
            played.node.notes += [f"known issue {name} did not happen: this kubelet has fixed it" for name in fixed]
            played.stale.clear()
        if report.passed and played.stale:
            report.outcome = "failed"
            outcome = "failed"
            problem = report.longrepr = _stale(played)
        elif report.passed and played.known_issues:
            ids = sorted({issue.id for issue in played.known_issues})
            item.user_properties += [("known-issue", name) for name in ids]
            report.outcome = "skipped"
            outcome = "known issue"
            report.wasxfail = "; ".join(f"{i.id}: {i.what}" for i in played.known_issues)
        if report.failed:
            report.sections.append(("history", histories.format_history(played.node.history.records)))
            if logs := self._session.log_tail():
                report.sections.append(("logs", logs))
            report.sections.append(("rerun", self._rerun(item)))
        return outcome, problem

    def _about(self, item: pytest.Item) -> tuple[HealthApi | None, Mapping[Capability, str]]:
        """The health API of the drivers, and what the target lacks."""
        way = play_of(item, self._session.options)
        return way.api, self._session.options.missing_on(way.node)

    def _rerun(self, item: pytest.Item) -> str:
        options = self._session.options
        if scenarios_folder().samefile(item.path.parent):
            way = play_of(item, options)
            only = replace(options, health_api=way.api, every_health_api=False)
            name = getattr(item, "originalname", item.name)
            selected = quote(f"{name} and {way.node}") if way.node else name
            return f"drahealth run {only.flags} -k {selected}"
        if not isinstance(item, pytest.Function):  # a timeline, of a file
            path = "-" if item.path.name == STANDARD_INPUT else quote(os.path.relpath(item.path))
            return f"drahealth play {path} {options.flags}"
        return f"pytest {quote(item.nodeid)} {options.flags_as('--drahealth-')}"

    def _keep_history(self, played: Played, which: str) -> tuple[str, str]:
        """Writes the history file. Returns its path, as seen from the report, and its digest."""
        directory = self._config.getoption("drahealth_histories")
        if not directory:
            return "", ""
        name, number = f"{played.scenario.name}{which.replace('/', '-')}", 1
        path = Path(directory, f"{name}.jsonl")
        while path in self._histories:  # timelines of several files can have the same name
            number += 1
            path = Path(directory, f"{name} {number}.jsonl")
        self._histories.add(path)
        records = played.node.history.records
        header = Header.make(played.node.profile.name, SystemClock(), records[0].at if records else None)
        content = "".join(f"{line}\n" for line in dump_lines(header, records)).encode()
        path.write_bytes(content)
        report = Path(self._config.getoption("drahealth_report") or "report.json")
        return os.path.relpath(path, report.absolute().parent), hashlib.sha256(content).hexdigest()


@dataclass(frozen=True, slots=True)
class Failure:
    """A failed check, with its explanation."""

    error: Violation | StepFailed
    diagnosis: Diagnosis
    quotes: tuple[Quote, ...]
    """The statements of the texts, of which a few are shown."""
    left_out: int

    def properties(self) -> Iterator[tuple[str, str]]:
        """The properties in JUnit XML."""
        if self.diagnosis.text:
            yield from (("cause", self.diagnosis.cause), ("diagnosis", self.diagnosis.text))
        yield from (("statement", f"{one} {one.link}".rstrip()) for one in self.quotes)

    def lines(self) -> Iterator[str]:
        """The diagnosis, the requirement and the statements of the texts."""
        if self.diagnosis.text:
            yield f"diagnosis: {self.diagnosis.text}"
        entry = requirements().get(getattr(self.error, "requirement", ""))
        if entry is None:
            return
        yield f"{entry.id} ({entry.level}, {entry.applies_to}): {entry.sentence}"
        for one in self.quotes:
            yield f"  text:     {one}"
            if one.link:
                yield f"            {one.link}"
        if self.left_out:
            yield f"            {self.left_out} more: drahealth explain {entry.id}"


def _failure(call: pytest.CallInfo[Any], played: Played | None, scenario: Scenario) -> Failure | None:
    """The failed check of a scenario; None for any other error."""
    error = call.excinfo.value if call.excinfo else None
    return explain(error, played.node, scenario.name) if played and error else None


def explain(error: BaseException, node: Node, scenario: str) -> Failure | None:
    """The failed check of a scenario on this node, with its explanation; None for any other error."""
    if not isinstance(error, Violation | StepFailed):
        return None
    found = quotes(error.requirement, scenario) if isinstance(error, Violation) else ()
    return Failure(error, node.diagnosis(error), found[:_QUOTES], len(found[_QUOTES:]))


def _is_harness(call: pytest.CallInfo[Any]) -> bool:
    """Whether the error is a harness error. Only assertions concern the tested kubelet or driver."""
    return call.excinfo is not None and not isinstance(call.excinfo.value, AssertionError)


def _broken(scenario: Scenario, call: pytest.CallInfo[Any], played: Played | None) -> tuple[str, ...]:
    """The requirements that failed, also by known issues. A harness error fails none."""
    error = call.excinfo.value if call.excinfo else None
    if (played and played.stale) or isinstance(error, StepFailed):
        return ()
    if isinstance(error, Violation) and error.assertion != STEP_FAILED:
        return (error.requirement,)
    if error:
        return () if call.when != "call" or _is_harness(call) else scenario.requirements
    return tuple(sorted({issue.requirement for issue in played.known_issues})) if played else ()


def _known_violations(played: Played) -> tuple[KnownViolation, ...]:
    return tuple(
        KnownViolation(issue.id, found.requirement, found.assertion, found.expected, found.seen)
        for issue, found in zip(played.known_issues, played.violations, strict=True)
    )


def _error_text(report: pytest.TestReport, call: pytest.CallInfo[Any], failure: Failure | None) -> str:
    """The full error text. It replaces the traceback of errors whose traceback does not help."""
    if call.excinfo is None or not report.failed:
        return ""
    error = call.excinfo.value
    if failure:
        place = [] if failure.error.where else [_place(call)]  # the message of a timeline already names the step
        report.longrepr = "\n".join((*failure.lines(), *place, full_text(failure.error)))
    elif isinstance(error, HarnessError | ControlFailed | ApiError):
        report.longrepr = full_text(error)
    return str(report.longrepr)


def _place(call: pytest.CallInfo[Any]) -> str:
    """The line of the scenario that raised the error."""
    assert call.excinfo
    lines = [entry for entry in call.excinfo.traceback if Path(str(entry.path)).name.startswith("test_")]
    if not lines:
        return "check of the whole history"
    return f"{Path(str(lines[-1].path)).name}:{lines[-1].lineno + 1}: {str(lines[-1].statement).strip()}"


def _stale(played: Played) -> str:
    names = "; ".join(f"{issue.id} ({issue.requirement}, {issue.assertion!r})" for issue in played.stale)
    return f"known issue {names} did not happen: update its entry in known_issues.toml for this release"
