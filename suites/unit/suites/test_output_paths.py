"""Checks of output files before a run."""

import re
from pathlib import Path

import pytest

from drahealth.suites.errors import ConfigurationError
from drahealth.suites.output_paths import check_output_file, check_output_folder


def test_a_writable_file_is_not_changed(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    old.write_text("what was there")
    check_output_file(str(old))
    check_output_file(str(new))
    assert (old.read_text(), new.exists()) == ("what was there", False)


def test_a_folder_is_created_with_its_parents(tmp_path: Path) -> None:
    for _ in range(2):
        check_output_folder(str(tmp_path / "a/b"))
    assert list((tmp_path / "a/b").iterdir()) == []


def test_no_path_is_no_check() -> None:
    check_output_file(None)
    check_output_folder(None)


@pytest.mark.parametrize(
    ("name", "why"), [("", "Is a directory"), ("no/file", "No such file or directory"), ("file/x", "Not a directory")]
)
def test_an_unwritable_file_gives_an_error_with_the_reason(tmp_path: Path, name: str, why: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigurationError, match=re.escape(f"{tmp_path / name}: {why};")):
        check_output_file(str(tmp_path / name))


@pytest.mark.parametrize(("name", "why"), [("file", "File exists"), ("file/x", "Not a directory")])
def test_an_unwritable_folder_gives_an_error_with_the_reason(tmp_path: Path, name: str, why: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigurationError, match=re.escape(f"{tmp_path / name}: {why};")):
        check_output_folder(str(tmp_path / name))
