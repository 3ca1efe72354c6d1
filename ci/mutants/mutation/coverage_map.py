"""Which scenarios run which lines of the changed modules: a program, and the map that it writes.

python -m mutation.coverage_map FILE
"""

import json
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pytest

from mutation.hand import ROOT, changed_modules

SCENARIOS = "suites/kep"
_AT_START = "*"
"""Stands for the start of the target, which all scenarios share."""


@dataclass(frozen=True)
class CoverageMap:
    """The map of one run of all scenarios."""

    lines: dict[str, dict[str, list[str]]]
    """By module and line, the names of the scenarios that ran it, and `*` if the start of the target did; lines that
    ran at import alone are not there."""
    seconds: dict[str, float]
    """The duration of each scenario."""
    processor: dict[str, float]
    """The processor time of each scenario, in seconds."""
    imports: float
    """The processor time before the first scenario: most of it is for imports."""

    def scenarios(self, path: str, lines: Iterable[int], *, at_import: bool) -> list[str]:
        """The scenarios to run for a change of these lines, the fastest first.

        A line outside of functions runs at import, and a line of the start of the target runs once for all scenarios:
        then each scenario that uses the module counts. A module without functions has only lines of the import: then
        all scenarios count.
        """
        module = self.lines.get(path) or {"": [*self.seconds]}
        ran = {name for line in lines for name in module.get(str(line), [])}
        if at_import or _AT_START in ran:
            ran = {name for names in module.values() for name in names}
        return sorted(ran - {_AT_START}, key=lambda name: (self.seconds[name], name))


def read_map(file: Path) -> CoverageMap:
    """Reads a map. Raises OSError, and ValueError if it is incomplete or older than this code."""
    text = file.read_text()
    try:
        return CoverageMap(**json.loads(text))
    except (TypeError, ValueError):
        raise ValueError(f"{file}: not a whole map of this version") from None


class _Contexts:
    def __init__(self, coverage: Any) -> None:
        self._coverage = coverage
        self.seconds: dict[str, float] = {}
        self.processor: dict[str, float] = {}
        self.imports = 0.0
        self._has_started = False

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        began = time.process_time()
        self.imports = self.imports or began
        try:
            return (yield)
        finally:
            self.processor[item.name] = round(time.process_time() - began, 3)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Iterator[None]:
        self._coverage.switch_context("" if self._has_started else _AT_START)
        self._has_started = True
        return (yield)

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Only the default health API: the changed modules run the same lines over the others."""
        items[:] = [item for item in items if "[" not in item.name]

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
        self._coverage.switch_context(item.name)
        try:
            return (yield)
        finally:
            self._coverage.switch_context("")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call":
            self.seconds[report.nodeid.rpartition("::")[2]] = round(report.duration, 3)


def main(file: Path) -> int:
    """Runs all scenarios, and writes the map. Returns pytest's exit code."""
    from coverage import Coverage

    coverage = Coverage(data_file=None, include=[str(ROOT / path) for path in changed_modules()])
    contexts = _Contexts(coverage)
    coverage.start()
    code = int(pytest.main(["-q", "-p", "no:cacheprovider", str(ROOT / SCENARIOS)], plugins=[contexts]))
    coverage.stop()
    data = coverage.get_data()
    lines = {}
    for path in changed_modules():
        by_line = data.contexts_by_lineno(str(ROOT / path))
        named = {str(line): sorted(set(names) - {""}) for line, names in sorted(by_line.items())}
        lines[path] = {line: names for line, names in named.items() if names}
    if code == 0:
        found = CoverageMap(lines, contexts.seconds, contexts.processor, round(contexts.imports, 3))
        file.write_text(json.dumps(asdict(found)))
    return code


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
