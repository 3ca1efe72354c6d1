"""A node of `drahealth up --reference` for clients that do not know that it is no cluster."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from drahealth.suites.unit.command_process import COMMAND, run


@pytest.fixture(scope="session")
def kubeconfig() -> Iterator[Path]:
    """The kubeconfig of a Ready node, which is shared by all tests: each test has a namespace of its own."""
    folder = Path("/tmp") / f"dh-c{os.getpid()}"
    _drahealth(folder, "up", "--reference")
    yield folder / "drahealth" / "kubeconfig"
    _drahealth(folder, "down", "--all")
    shutil.rmtree(folder, ignore_errors=True)


def _drahealth(folder: Path, *arguments: str) -> None:
    """Runs a command for the nodes in this folder. Other tests of this process have other folders."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DRAHEALTH_STATE", str(folder))
        patch.delenv("DRAHEALTH_SOCKET", raising=False)
        done = run(COMMAND, *arguments)
    assert done.returncode == 0, done.stderr
