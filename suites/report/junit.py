"""Results as JUnit XML: that of checks, written with junitparser, and that of runs of scenarios, written by pytest."""

import re
from collections.abc import Generator, Iterable, Sequence
from contextlib import suppress
from pathlib import Path

import pytest
from _pytest.junitxml import LogXML, xml_key
from junitparser import Error, Failure, JUnitXml, Skipped, TestCase, TestSuite

from drahealth.suites.driver_checks.verdicts import Finding, Verdict
from drahealth.suites.report.document import (
    CheckedRequirement,
    CheckReport,
    KubeletReport,
    ObservationReport,
    Report,
    RequirementResult,
    RunReport,
    ScenarioResult,
)
from drahealth.suites.report.run_report import Run

# The report of a check: a test case for each requirement. A run without its end has an error.

_NOT_IN_XML = re.compile("[^\t\n\x20-\ud7ff\ue000-\ufffd]")
"""Characters that XML 1.0 does not allow."""
_RESULTS = {
    Verdict.FAIL: Failure,
    Verdict.ERROR: Error,
    Verdict.NOT_TESTED: Error,
    Verdict.WAIVED: Skipped,
    Verdict.NOT_APPLICABLE: Skipped,
    Verdict.STATIC: Skipped,
}


def to_junit(report: CheckReport | KubeletReport | ObservationReport | RunReport) -> str:
    """The report of a check, a certification, an observation or a soak as JUnit XML."""
    if isinstance(report, RunReport):
        return _soaked(report)
    if isinstance(report, KubeletReport):
        return _kubelet(report)
    if isinstance(report, ObservationReport):
        return _observed(report)
    command = "check" if report.conditions.level == "check" else "certify"
    suite = TestSuite(f"drahealth {command}")
    _describe(suite, report, report.conditions.drahealth)
    cases = [_case(one, f"drahealth.{command}") for one in report.requirements]
    if report.interrupted:
        cases.append(_unfinished(f"drahealth.{command}"))
    return str(_suites(suite, cases).tostring().decode())


def _observed(report: ObservationReport) -> str:
    """A test case for each rule on each node."""
    suite = TestSuite(report.program)
    _describe(suite, report, report.drahealth)
    cases = [
        _with_result(TestCase(one.id, f"drahealth.observe.{node.node}"), one, found.verdict, [found])
        for node in report.nodes
        for one in report.requirements
        if (found := node.findings[one.id])
    ]
    if report.interrupted:
        cases.append(_unfinished("drahealth.observe"))
    return str(_suites(suite, cases).tostring().decode())


def _kubelet(report: KubeletReport) -> str:
    """A test case for each requirement."""
    suite, name = TestSuite("drahealth certify --kubelet"), "drahealth.certify-kubelet"
    _describe(suite, report, report.certificate.drahealth)
    cases = []
    for one in report.requirements:
        found = [Finding(one.verdict, line) for line in report.certificate.explanation(one.id)]
        case = TestCase(one.id, f"{name}.{one.family.replace(' ', '-')}")
        cases.append(_with_result(case, one, one.verdict, found))
    if not report.complete:
        cases.append(_unfinished(name))
    return str(_suites(suite, cases).tostring().decode())


def _soaked(report: RunReport) -> str:
    """A test case for each round, and for each resource of a process."""
    suite = TestSuite(report.program)
    _describe(suite, report, report.conditions.versions.get("drahealth", ""))
    cases = [_round(one) for one in report.scenarios]
    for use in report.soak.uses if report.soak else ():
        case = TestCase(f"{use.process} {use.resource}", "drahealth.soak.leaks")
        if use.verdict != "no leak":
            case.result = [(Failure if use.verdict == "leak" else Skipped)(_clean(str(use)))]
        cases.append(case)
    if report.interrupted:
        cases.append(_unfinished("drahealth.soak"))
    return str(_suites(suite, cases).tostring().decode())


def _round(one: ScenarioResult) -> TestCase:
    case = TestCase(_clean(one.title), "drahealth.soak", one.seconds)
    kinds = {"failed": Failure, "error": Error, "known issue": Skipped}
    if kind := kinds.get(one.outcome):
        result = kind(_clean(f"{one.outcome}: {', '.join((*one.known_issues, *one.broken))}"))
        result.text = _clean("\n".join(filter(None, (one.problem, one.rerun))))
        case.result = [result]
    return case


def _describe(suite: TestSuite, report: Report, drahealth: str) -> None:
    found = {"verdict": report.verdict, "drahealth": drahealth, "complete": str(report.complete).lower()}
    for name, value in found.items():
        suite.add_property(name, _clean(value))


def _with_result(case: TestCase, one: RequirementResult, verdict: Verdict, findings: Sequence[Finding]) -> TestCase:
    kind = _RESULTS.get(verdict)
    if verdict is Verdict.FAIL and one.level != "MUST":
        kind = Skipped
    if kind:
        result = kind(_clean(f"{verdict}: {one.sentence}"))
        result.text = _clean("\n".join(finding.line for finding in findings))
        case.result = [result]
    return case


def _case(one: CheckedRequirement, command: str) -> TestCase:
    case = TestCase(one.id, f"{command}.{one.family.replace(' ', '-')}")
    _with_result(case, one, one.verdict, one.findings)
    if one.not_judged:
        case.system_out = _clean("\n".join(f"{name} does not apply: {why}" for name, why in one.not_judged.items()))
    return case


def _unfinished(name: str) -> TestCase:
    """The test case that stands for a run without its end."""
    case = TestCase("complete run", name)
    case.result = [Error("the run did not reach its end")]
    return case


def _suites(suite: TestSuite, cases: Iterable[TestCase]) -> JUnitXml:
    suite.add_testcases(list(cases))
    found = JUnitXml()
    found.add_testsuite(suite)
    found.update_statistics()
    return found


def _clean(text: str) -> str:
    return _NOT_IN_XML.sub("?", text)


# A run of scenarios: what JUnit XML of pytest needs in addition, so that results of several runs can be compared.
#
# pytest writes the file (`--junitxml`). Properties and attributes are added as its fixtures
# `record_testsuite_property` and `record_xml_attribute` do, which do not work for workers of pytest-xdist, nor for
# all tests at once.

_DEFAULT_SUITE_NAME = "pytest"


class JUnit:
    """A pytest plugin for the process that writes the file."""

    def __init__(self, xml: LogXML, run: Run) -> None:
        self._xml = xml
        self._run = run
        if xml.suite_name == _DEFAULT_SUITE_NAME:
            xml.suite_name = f"drahealth: {run.about}"
        for name, value in _properties(run).items():
            xml.add_global_property(name, value)
        self._write_placeholder()

    @classmethod
    def of(cls, config: pytest.Config, run: Run) -> "JUnit | None":
        """None if pytest writes no file here."""
        xml = config.stash.get(xml_key, None)
        return cls(xml, run) if xml else None

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> Generator[None]:
        """Names the test case by the scenario, not by the path of its file."""
        case: tuple[str, str] | None = getattr(report, "drahealth_case", None)
        if case:
            reporter = self._xml.node_reporter(report)
            for attribute, value in zip(("classname", "name"), case, strict=True):
                reporter.add_attribute(attribute, value)
        known = len(self._xml.node_reporters_ordered)
        yield
        if case and len(self._xml.node_reporters_ordered) > known:  # an error of the cleanup after a failure
            for attribute, value in zip(("classname", "name"), case, strict=True):
                self._xml.node_reporters_ordered[-1].to_xml().set(attribute, value)

    @pytest.hookimpl(wrapper=True)
    def pytest_sessionfinish(self) -> Generator[None]:
        """`Completeness` has run before, and pytest writes the file."""
        self._xml.add_global_property("complete", str(not self._run.reason()).lower())
        try:
            yield
        except OSError as error:
            path = self._xml.logfile
            pytest.exit(f"drahealth: cannot write {path}: {error.strerror}", pytest.ExitCode.INTERNAL_ERROR)

    def _write_placeholder(self) -> None:
        """A file for a run that does not reach its end, as after SIGKILL: it replaces the file of an earlier run."""
        path = Path(self._xml.logfile)
        if path.exists() and not path.is_file():
            return
        suites = _suites(TestSuite(self._xml.suite_name), [_unfinished("drahealth.run")])
        with suppress(OSError):  # pytest reports it at the end
            path.parent.mkdir(parents=True, exist_ok=True)
            suites.write(str(path))


def _properties(run: Run) -> dict[str, str]:
    """What distinguishes runs of a matrix. A run without a value, such as a seed, has no such property."""
    about = run.conditions
    found = {
        "drahealth": about.versions.get("drahealth"),
        "target": run.target,
        "kubernetes": about.kubernetes,
        "profile": about.profile,
        "health-api": run.health_api,
        "seed": None if about.seed is None else str(about.seed),
        "platform": " ".join(about.host.get(key, "") for key in ("system", "release", "machine")),
        "python": about.versions.get("python"),
        "revision": about.revision,
    }
    return {name: value for name, value in found.items() if value}
