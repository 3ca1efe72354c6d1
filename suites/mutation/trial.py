"""Runs scenarios on a changed reference: python -m drahealth.suites.mutation.trial PATH INDEX REPORT SCENARIO...

The exit code is that of pytest: 0 if all scenarios pass, 1 if one fails. NO_IMPORT: the changed module does not import.
"""

import importlib
import sys
from collections.abc import Sequence

import pytest

from drahealth.suites.mutation.coverage_map import SCENARIOS
from drahealth.suites.mutation.modules import ROOT, install, module_name
from drahealth.suites.mutation.operators import mutated

NO_IMPORT = 70
"""Exit code of a change that breaks the import of its module."""


def main(path: str, index: int, report: str, scenarios: Sequence[str]) -> int:
    """Runs them until the first failure, with the whole windows of the reference."""
    install(path, mutated((ROOT / path).read_text(), index))
    try:
        importlib.import_module(module_name(path))
    except Exception as error:  # whatever a changed module raises
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        return NO_IMPORT
    names = " or ".join(scenarios)
    options = ("-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist", f"--drahealth-report={report}")
    early = "-Wignore::pytest.PytestAssertRewriteWarning"  # the import above brings plugins of pytest along
    return int(pytest.main([*options, early, "-k", names, str(ROOT / SCENARIOS)]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4:]))
