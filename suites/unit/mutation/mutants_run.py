"""Runs of ci/mutants/run with results and a coverage map in a folder of their own."""

import json
import os
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

from mutation.coverage_map import CoverageMap
from mutation.hand import ROOT
from mutation.running import digest

PATIENCE = 240.0
SCENARIO = "test_an_unhealthy_device_shows_in_the_pod_status_with_its_message"


def results(cache: Path) -> Path:
    """The folder of the results for the present reference."""
    folder = cache / "drahealth" / "mutants" / digest()
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def write_map(cache: Path, path: str, *lines: int) -> None:
    """Writes a map in which one scenario runs these lines of the module, and nothing else runs."""
    seconds = {SCENARIO: 0.1}
    covered = CoverageMap({path: {str(line): [SCENARIO] for line in lines}}, seconds, seconds, imports=30.0)
    (results(cache) / "coverage.json").write_text(json.dumps(asdict(covered)))


def start(cache: Path, name: str) -> subprocess.Popen[str]:
    """Starts a run for the automatic changes with this name, two at a time. Temporary files are in the folder, too."""
    words = [sys.executable, str(ROOT / "ci" / "mutants" / "run"), "-k", name, "--workers", "2"]
    environment = {**os.environ, "XDG_CACHE_HOME": str(cache), "TMPDIR": str(cache)}
    return subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=environment, start_new_session=True)


def finish(run: subprocess.Popen[str]) -> list[str]:
    """The lines that it writes until its end."""
    return run.communicate(timeout=PATIENCE)[0].splitlines()
