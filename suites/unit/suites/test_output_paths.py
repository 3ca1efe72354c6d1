"""Checks of output files before a run."""

import re
from pathlib import Path

import pytest

from drahealth.suites.errors import ConfigurationError
from drahealth.suites.output_paths import check_histories_folder, check_output_file, check_output_folder


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


def test_missing_output_path_is_not_checked() -> None:
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


@pytest.mark.parametrize("content", ["", '{"format": "drahealth-history/v1", "drahealth": "0.1.0"}\n'])
def test_a_folder_of_histories_can_be_used_again_beside_other_files(tmp_path: Path, content: str) -> None:
    (tmp_path / "old.jsonl").write_text(content)
    (tmp_path / "report.json").write_text("{}")
    check_histories_folder(str(tmp_path))
    assert (tmp_path / "old.jsonl").read_text() == content


def test_a_file_that_a_run_could_overwrite_is_refused_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "mine.jsonl").write_text('{"format": "mine"}\n')
    with pytest.raises(ConfigurationError, match=r"not a history: mine\.jsonl; choose another folder"):
        check_histories_folder(str(tmp_path))
    (tmp_path / "mine.jsonl").unlink()
    (tmp_path / "folder.jsonl").mkdir()
    with pytest.raises(ConfigurationError, match=r"not a history: folder\.jsonl"):
        check_histories_folder(str(tmp_path))
