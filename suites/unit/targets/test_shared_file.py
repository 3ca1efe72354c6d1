"""The file that the controller of a distributed run shares with its workers."""

from pathlib import Path

import pytest

from drahealth.suites.errors import HarnessError
from drahealth.suites.targets.registry import SharedFile


def test_workers_read_the_data_of_the_controller(tmp_path: Path) -> None:
    file = SharedFile(tmp_path / "shared.json")
    file.write({"nodes": ["a"]})
    assert SharedFile(file.path, worker=3).read() == {"nodes": ["a"]}


def test_workers_raise_the_error_of_the_controller(tmp_path: Path) -> None:
    file = SharedFile(tmp_path / "shared.json")
    file.write(HarnessError("There is no engine", "install one"))
    with pytest.raises(HarnessError) as raised:
        file.read()
    assert (raised.value.message, raised.value.hint) == ("There is no engine", "install one")


def test_a_missing_file_is_an_error_of_the_harness(tmp_path: Path) -> None:
    with pytest.raises(HarnessError):
        SharedFile(tmp_path / "shared.json").read()
