"""The tests that the texts and Kubernetes name, and which tests of ours stand for each.

The rows are data (upstream_tests.toml). What stands for them is found by collecting, in a process of its own, so that
the caller may be a test: `python -m drahealth.suites.unit.upstream_tests FILE...` writes it as JSON.
"""

import contextlib
import io
import json
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from drahealth.suites.run.scenario import scenario_of

CHECKOUT = Path(__file__).resolve().parents[2]
MARK = "counterpart"


class NotCollected(Exception):
    """The tests have a fault that keeps pytest from collecting them; its text is pytest's."""


@dataclass(frozen=True, slots=True)
class UpstreamTest:
    """One row: a test that a text or Kubernetes names."""

    id: str
    where: str
    asserts: str
    since: str
    not_ours: str = ""
    """Why it has no counterpart; empty if it is to have one."""


@cache
def upstream_tests() -> dict[str, UpstreamTest]:
    """The rows by id, in their order."""
    data = tomllib.loads(Path(__file__).with_suffix(".toml").read_text())
    return {name: UpstreamTest(id=name, **row) for name, row in data.items()}


def counterparts(folder: Path = CHECKOUT / "suites") -> dict[str, list[str]]:
    """The tests below `folder` by the id that their mark names, as `FILE::NAME` from the checkout's root.

    Files without the mark's word are not collected: that would take most of the time. Raises NotCollected, with
    pytest's own words, for tests that cannot be collected.
    """
    files = [path for path in sorted(folder.rglob("test_*.py")) if MARK in path.read_text()]
    if not files:
        return {}
    command = [sys.executable, "-m", __name__, *map(str, files)]
    done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NotCollected(done.stderr)
    found: dict[str, list[str]] = json.loads(done.stdout)
    return found


class _Collector:
    """A pytest plugin that keeps the marks of what is collected; a test with parameters counts once."""

    def __init__(self) -> None:
        self.found: dict[str, list[str]] = {}

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        for item in session.items:
            ids = [name for mark in item.iter_markers(MARK) for name in mark.args]
            if scenario := scenario_of(getattr(item, "function", None)):
                ids += scenario.counterpart_of
            test = item.nodeid.partition("[")[0]
            for name in ids:
                if test not in self.found.setdefault(name, []):
                    self.found[name].append(test)


def _main(files: Sequence[str]) -> int:
    collector, said = _Collector(), io.StringIO()
    with contextlib.redirect_stdout(said):
        code = pytest.main(["--collect-only", "-qq", "-p", "no:cacheprovider", *files], plugins=[collector])
    if code != pytest.ExitCode.OK:
        sys.stderr.write(said.getvalue())
        return int(code)
    json.dump(collector.found, sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(_main(sys.argv[1:]))
