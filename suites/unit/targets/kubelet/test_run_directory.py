"""The folder of a run, also after its process has ended."""

import fcntl
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from drahealth.suites.errors import HarnessError
from drahealth.suites.targets.kubelet.layout import Layout
from drahealth.suites.targets.removal import remove_folder
from drahealth.suites.targets.run_directory import RunDirectory, default_base, sweep

DYING = """
import os, signal, sys
from pathlib import Path
from drahealth.suites.targets.removal import remove_folder
from drahealth.suites.targets.run_directory import RunDirectory
RunDirectory.create(Path(sys.argv[1]))
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_run_folder_is_private_and_short(tmp_path: Path) -> None:
    run = RunDirectory.create(tmp_path)
    assert stat.S_IMODE(run.path.stat().st_mode) == 0o700
    assert len(run.path.name) == len("dh-123456")
    run.remove()
    assert list(tmp_path.iterdir()) == []


def test_the_socket_path_of_the_longest_driver_name_is_short_enough() -> None:
    socket = Layout(Path("/tmp/dh-123456")).registry_dir / ("d" * 63 + "-reg.sock")
    assert len(os.fsencode(socket)) <= 107


def test_a_long_tmpdir_is_not_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "very" / "long"))
    assert default_base() == Path("/tmp")


def test_next_run_removes_the_folder_of_a_killed_run(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", DYING, str(tmp_path)], check=False)
    assert len(list(tmp_path.iterdir())) == 1
    run = RunDirectory.create(tmp_path)
    assert list(tmp_path.iterdir()) == [run.path]
    run.remove()


WATCHED = """
import os, signal, sys
from pathlib import Path
from drahealth.suites.targets.run_directory import RunDirectory
run = RunDirectory.create(Path(sys.argv[1]))
run.remove_if_killed()
print(run.path, flush=True)
os.kill(os.getpid(), signal.SIGSTOP)
"""


def test_folder_of_a_killed_run_is_removed_without_a_next_run(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", WATCHED, str(tmp_path)], stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout
        folder = Path(run.stdout.readline().strip())
        (folder / "sealed").mkdir(mode=0)
        with (folder / "lock").open() as lock:
            run.kill()
            fcntl.flock(lock, fcntl.LOCK_EX)  # which the remover holds until its end
    assert list(tmp_path.iterdir()) == []


def test_removed_folder_has_no_process_left(tmp_path: Path) -> None:
    run = RunDirectory.create(tmp_path)
    run.remove_if_killed()
    with (run.path / "lock").open() as lock:
        run.remove()
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    assert list(tmp_path.iterdir()) == []


def test_a_sweep_leaves_used_kept_and_foreign_folders(tmp_path: Path) -> None:
    alive, kept = RunDirectory.create(tmp_path), RunDirectory.create(tmp_path)
    kept.keep()
    foreign = tmp_path / "dh-foreign"
    foreign.mkdir(mode=0o755)
    assert sweep(tmp_path) == []
    assert set(tmp_path.iterdir()) == {alive.path, kept.path, foreign}
    alive.release()


def test_an_unfinished_folder_is_not_removed(tmp_path: Path) -> None:
    (tmp_path / ".dh-new").mkdir(mode=0o700)
    (tmp_path / ".dh-old").mkdir(mode=0o700)
    os.utime(tmp_path / ".dh-old", (1, 1))
    assert sweep(tmp_path) == [tmp_path / ".dh-old"]


def test_a_folder_without_permissions_is_removed(tmp_path: Path) -> None:
    locked = tmp_path / "run" / "pods" / "locked"
    locked.mkdir(parents=True)
    (locked / "file").touch()
    locked.chmod(0)
    remove_folder(tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_the_error_of_a_missing_base_names_the_variable(tmp_path: Path) -> None:
    with pytest.raises(HarnessError, match=r"cannot make a run folder in .*; .*TMPDIR"):
        RunDirectory.create(tmp_path / "missing")
