"""The files of a run are tried before it."""

import re
from pathlib import Path

import pytest

from drahealth.suites.errors import ConfigurationError
from drahealth.suites.run.outputs import check_file, check_folder


def test_a_file_that_can_be_written_is_left_as_it_is(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    old.write_text("what was there")
    check_file(str(old))
    check_file(str(new))
    assert (old.read_text(), new.exists()) == ("what was there", False)


def test_a_folder_is_made_with_those_above_it_and_left_empty(tmp_path: Path) -> None:
    for _ in range(2):
        check_folder(str(tmp_path / "a/b"))
    assert list((tmp_path / "a/b").iterdir()) == []


def test_what_is_not_asked_for_is_not_tried() -> None:
    check_file(None)
    check_folder(None)


@pytest.mark.parametrize(
    ("name", "why"), [("", "Is a directory"), ("no/file", "No such file or directory"), ("file/x", "Not a directory")]
)
def test_a_file_that_cannot_be_written_is_told_with_the_reason(tmp_path: Path, name: str, why: str) -> None:
    (tmp_path / "file").touch()
    sentence = f"{tmp_path / name} cannot be written: {why}; name another file"
    with pytest.raises(ConfigurationError, match=f"^{re.escape(sentence)}$"):
        check_file(str(tmp_path / name))


@pytest.mark.parametrize(("name", "why"), [("file", "File exists"), ("file/x", "Not a directory")])
def test_a_folder_that_cannot_be_is_told_with_the_reason(tmp_path: Path, name: str, why: str) -> None:
    (tmp_path / "file").touch()
    sentence = f"no files can be put into {tmp_path / name}: {why}; name another folder"
    with pytest.raises(ConfigurationError, match=f"^{re.escape(sentence)}$"):
        check_folder(str(tmp_path / name))
