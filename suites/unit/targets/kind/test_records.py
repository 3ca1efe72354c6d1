"""The records of clusters, and their locks."""

import fcntl
import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NoReturn

import pytest

from drahealth.suites.errors import HarnessError
from drahealth.suites.targets.kind.ownership import Claim, Record, default_base, records, seize


def test_a_claim_is_a_record_in_use_until_it_is_released(tmp_path: Path) -> None:
    claim = Claim.make("mine", "docker X", tmp_path)
    record = claim.record
    assert [(r.run_id, r.cluster, r.engine, r.kept, r.in_use) for r in records(tmp_path)] == [
        (claim.run_id, "mine", "docker X", False, True)
    ]
    claim.release()
    claim.release()
    assert records(tmp_path) == [record]


def test_a_kept_cluster_stays_so_when_it_is_released(tmp_path: Path) -> None:
    claim = Claim.make("mine", "docker X", tmp_path)
    claim.keep()
    claim.release()
    assert [record.kept for record in records(tmp_path)] == [True]


def test_a_cluster_kept_during_a_read_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    claim, flock = Claim.make("mine", "docker X", tmp_path), fcntl.flock

    def keep_first(lock: int, how: int) -> None:
        if claim.record.kept is False:
            claim.keep()
            claim.release()
        flock(lock, how)

    monkeypatch.setattr(fcntl, "flock", keep_first)
    assert [(record.kept, record.in_use) for record in records(tmp_path)] == [(True, False)]


def test_a_discarded_record_is_removed_with_its_folder(tmp_path: Path) -> None:
    claim = Claim.make("mine", "docker X", tmp_path)
    (claim.folder / "kubeconfig").write_text("secret")
    claim.discard()
    assert list(tmp_path.iterdir()) == []


def test_the_folder_of_a_cluster_is_private(tmp_path: Path) -> None:
    assert Claim.make("mine", "docker X", tmp_path).folder.stat().st_mode & 0o777 == 0o700


def test_a_claim_ends_with_its_process(tmp_path: Path) -> None:
    code = f"""if True:
        import os, pathlib
        from drahealth.suites.targets.kind.ownership import Claim
        claim = Claim.make("mine", "docker X", pathlib.Path({str(tmp_path)!r}))
        os._exit(9)"""
    subprocess.run([sys.executable, "-c", code], check=False)
    assert [(record.cluster, record.in_use) for record in records(tmp_path)] == [("mine", False)]


def test_a_cluster_is_in_use_until_its_last_claim_is_released(tmp_path: Path) -> None:
    first = Claim.make("mine", "docker X", tmp_path)
    second = Claim.attach(first.run_id, tmp_path)
    first.release()
    assert seize(second.record, tmp_path) is None
    second.release()
    assert seize(second.record, tmp_path) is not None


def test_a_cluster_that_is_being_removed_cannot_be_claimed(tmp_path: Path) -> None:
    claim = Claim.make("mine", "docker X", tmp_path)
    claim.release()
    seized = seize(claim.record, tmp_path)
    with pytest.raises(HarnessError, match=f"cluster of the run {claim.run_id} is being removed"):
        Claim.attach(claim.run_id, tmp_path)
    assert seized is not None
    seized.discard()
    with pytest.raises(HarnessError, match=f"no record of the run {claim.run_id} in "):
        Claim.attach(claim.run_id, tmp_path)


@pytest.mark.parametrize("text", ["", "?", "[]", "{}", '{"cluster": "a", "engine": "b", "made": "x"}'])
def test_other_files_are_not_records(tmp_path: Path, text: str) -> None:
    (tmp_path / "ab12").mkdir()
    (tmp_path / "ab12" / "record").write_text(text)
    assert records(tmp_path) == []
    assert (tmp_path / "ab12" / "record").read_text() == text


def test_an_unfinished_folder_is_removed_later(tmp_path: Path) -> None:
    young, old = tmp_path / "young", tmp_path / "old"
    young.mkdir()
    old.mkdir()
    os.utime(old, (0, 0))
    assert records(tmp_path) == []
    assert list(tmp_path.iterdir()) == [young]


def test_an_unwritable_folder_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    hint = "free some disk space there, or set XDG_STATE_HOME"
    with pytest.raises(HarnessError, match=rf"^cannot write the record .*; {hint}"):
        Claim.make("mine", "docker X", tmp_path / "file" / "base")


def test_a_failed_write_of_a_record_is_an_error(tmp_path: Path) -> None:
    claim = Claim.make("mine", "docker X", tmp_path)
    claim.discard()
    with pytest.raises(HarnessError, match=r"cluster mine as kept .*; free some"):
        claim.keep()
    assert claim.record.kept is False


def test_unreadable_records_are_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(folder: Path) -> NoReturn:
        raise PermissionError(13, "Permission denied", str(folder))

    monkeypatch.setattr(Path, "iterdir", refuse)  # root is refused nothing
    with pytest.raises(HarnessError, match=r"^cannot read the records .*Permission denied"):
        records(tmp_path)


def test_a_record_has_an_age() -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    assert Record("a", "b", "c", (now - timedelta(minutes=2)).isoformat()).age(now) == 120


def test_records_are_in_the_users_state_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert default_base().is_relative_to(tmp_path) or sys.platform == "darwin"
