"""What JUnit XML of pytest needs in addition, so that results of several runs can be compared.

pytest writes the file (`--junitxml`). Properties and attributes are added as its fixtures `record_testsuite_property`
and `record_xml_attribute` do, which do not work for workers of pytest-xdist, nor for all tests at once.
"""

from collections.abc import Generator
from contextlib import suppress
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from _pytest.junitxml import LogXML, xml_key

from drahealth.suites.judging.report import Run

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
        suites = ET.Element("testsuites")
        suite = ET.SubElement(suites, "testsuite", name=self._xml.suite_name, tests="1", errors="1")
        case = ET.SubElement(suite, "testcase", classname="drahealth.run", name="complete run")
        ET.SubElement(case, "error", message="the run did not reach its end")
        with suppress(OSError):  # pytest reports it at the end
            path.parent.mkdir(parents=True, exist_ok=True)
            ET.ElementTree(suites).write(path, encoding="utf-8", xml_declaration=True)


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
