"""Runs scenarios on a changed reference, as a program:

    python -m mutation.trial PATH TEXT REPORT SECONDS SCENARIO=SECONDS...

PATH is a module, relative to the checkout, and TEXT a file with its changed text. If PATH is `fault`, TEXT is the key
of a fault of the model, and the reference has this fault. The scenarios run in the given order.
The exit code is that of pytest: 0 if all scenarios pass, 1 if one fails. NO_IMPORT: the reference does not import.
SECONDS limit the processor time of the imports and of each scenario. The signal TOO_LONG ends a trial that needs more.
"""

import importlib
import signal
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

from mutation.coverage_map import SCENARIOS
from mutation.faults import Fault
from mutation.hand import ROOT, install, module_name

NO_IMPORT = 70
"""Exit code of a change that breaks the import of its module, or of another module of the reference."""
FAULT = "fault"
"""In place of a module: the reference has a fault of the model."""
TOO_LONG = signal.SIGPROF
"""The system sends it after the processor time of a timer. It also ends a process that never returns to Python."""

_REFERENCE = "drahealth.suites.targets.reference.target"
"""Imports the modules of the reference."""


def main(path: str, text: str, report: str, imports: float, limits: Mapping[str, float]) -> int:
    """Runs scenarios until the first failure, with the whole windows of the reference. `limits`: by scenario."""
    _limit(imports)
    try:
        if path == FAULT:
            importlib.import_module("mutation.wrong_reference").install(Fault.of(text))
        else:
            install(path, Path(text).read_text())
            importlib.import_module(module_name(path))
        importlib.import_module(_REFERENCE)  # another module can miss a name of the changed one
    except Exception as error:  # whatever a changed module raises
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        return NO_IMPORT
    options = ("-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist", f"--drahealth-report={report}")
    early = "-Wignore::pytest.PytestAssertRewriteWarning"  # the import above brings plugins of pytest along
    return int(pytest.main([*options, early, str(ROOT / SCENARIOS)], plugins=[_Chosen(limits)]))


def _limit(seconds: float) -> None:
    """Ends this process after this much more processor time, in place of the limit before."""
    signal.setitimer(signal.ITIMER_PROF, seconds)


class _Chosen:
    """Runs only these scenarios, in this order, each with its limit."""

    def __init__(self, limits: Mapping[str, float]) -> None:
        self._limits = limits
        self._place = {name: place for place, name in enumerate(limits)}

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = sorted((item for item in items if item.name in self._place), key=lambda item: self._place[item.name])

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> None:
        _limit(self._limits[item.name])


def _limits(words: Iterable[str]) -> dict[str, float]:
    return {name: float(seconds) for name, _, seconds in (word.partition("=") for word in words)}


if __name__ == "__main__":
    _path, _text, _report, _imports, *_scenarios = sys.argv[1:]
    sys.exit(main(_path, _text, _report, float(_imports), _limits(_scenarios)))
