"""A folder for nodes, and the commands for them."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from drahealth.suites.unit import command_process
from drahealth.suites.unit.command_process import COMMAND


@pytest.fixture
def nodes(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of this test's nodes, with a path that is short enough for sockets. All nodes are removed."""
    folder = Path("/tmp") / f"dh-n{os.getpid()}"
    monkeypatch.setenv("DRAHEALTH_STATE", str(folder))
    monkeypatch.delenv("DRAHEALTH_SOCKET", raising=False)
    yield folder
    command_process.run(COMMAND, "down", "--all")
    shutil.rmtree(folder, ignore_errors=True)
