"""`drahealth up` on machines that lack something: a full disk, or binaries that cannot be had."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from drahealth.suites.processes.sandbox import WITH_USER, unshare
from drahealth.suites.unit.command_process import PATIENCE, Done

pytestmark = pytest.mark.usefixtures("user_namespaces")
START = (
    f'drahealth() {{ {sys.executable} -m drahealth.suites "$@"; }}; mount -t tmpfs -o size=$SIZE none $DRAHEALTH_STATE'
)


def on_disk(size: str, nodes: Path, script: str, *namespaces: str, **more: str) -> Done:
    """Runs a shell script in namespaces where the nodes have a disk of this size. All its processes end with it."""
    nodes.mkdir()
    command = [*unshare(WITH_USER), *namespaces, "--mount-proc", "sh", "-c", f"{START}; {script}"]
    environment = {**os.environ, "SIZE": size, **more}
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False, env=environment)


def test_insufficient_disk_space_prints_one_line_and_leaves_no_files(nodes: Path) -> None:
    done = on_disk("200m", nodes, "drahealth up; code=$?; ls -A $DRAHEALTH_STATE; exit $code")
    assert (done.returncode, done.stdout, done.stderr.count("\n"), "needs 300 MB" in done.stderr) == (3, "", 1, True)


def test_status_reports_a_full_disk_and_down_removes_the_node(nodes: Path) -> None:
    script = (
        "drahealth up --reference >/dev/null && dd if=/dev/zero of=$DRAHEALTH_STATE/filler bs=4096 2>/dev/null;"
        " drahealth down --keep >/dev/null; drahealth status --json; drahealth down >&2; ls -A $DRAHEALTH_STATE >&2"
    )
    done = on_disk("16m", nodes, script)
    (status,) = json.loads(done.stdout)
    assert (status["phase"], status["problem"]) == ("killed", f"the disk of {nodes}/drahealth is full")
    assert done.stderr.splitlines()[-2:] == ["node drahealth is removed", "filler"]


def test_up_without_binaries_network_and_go_prints_one_error(nodes: Path, tmp_path: Path) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("ls", "mount", "sh"):
        (tools / name).symlink_to(shutil.which(name) or name)
    script = "drahealth up; code=$?; ls -A $DRAHEALTH_STATE; exit $code"
    done = on_disk("1g", nodes, script, "--net", PATH=str(tools), DRAHEALTH_CACHE=str(tmp_path / "cache"))
    lines = [line for line in done.stderr.splitlines() if line.startswith("drahealth: ")]
    assert (done.returncode, done.stdout, len(lines), "install Go" in lines[0]) == (3, "", 1, True)
