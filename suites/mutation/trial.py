"""Runs scenarios on a changed reference: python -m drahealth.suites.mutation.trial PATH TEXT REPORT SCENARIO...

PATH is a module, relative to the checkout, and TEXT a file with its changed text. The scenarios run in the given order.
The exit code is that of pytest: 0 if all scenarios pass, 1 if one fails. NO_IMPORT: the changed module does not import.
"""

import importlib
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from drahealth.suites.mutation.coverage_map import SCENARIOS
from drahealth.suites.mutation.modules import ROOT, install, module_name

NO_IMPORT = 70
"""Exit code of a change that breaks the import of its module."""


def main(path: str, text: str, report: str, scenarios: Sequence[str]) -> int:
    """Runs them until the first failure, with the whole windows of the reference."""
    try:
        install(path, Path(text).read_text())
        importlib.import_module(module_name(path))
    except Exception as error:  # whatever a changed module raises
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        return NO_IMPORT
    options = ("-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist", f"--drahealth-report={report}")
    early = "-Wignore::pytest.PytestAssertRewriteWarning"  # the import above brings plugins of pytest along
    return int(pytest.main([*options, early, str(ROOT / SCENARIOS)], plugins=[_Chosen(scenarios)]))


class _Chosen:
    """Runs only these scenarios, in this order."""

    def __init__(self, names: Sequence[str]) -> None:
        self._place = {name: place for place, name in enumerate(names)}

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = sorted((item for item in items if item.name in self._place), key=lambda item: self._place[item.name])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4:]))
