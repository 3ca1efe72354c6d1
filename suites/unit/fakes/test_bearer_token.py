"""The file with a bearer token."""

import os
import stat
from pathlib import Path

import pytest

from drahealth.fakes.program.private_files import BearerToken, TokenFileError


def test_a_new_token_is_stored_for_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "token"
    token = BearerToken.kept_in(path)
    assert token.permits(f"Bearer {path.read_text().strip()}")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_stored_token_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "token"
    assert BearerToken.kept_in(path).value == BearerToken.kept_in(path).value


@pytest.mark.parametrize(
    "content", [b"", b"short", b"two words and a half", b"\xff" * 20, b"x" * 20 + b"\n" + b"y" * 20]
)
def test_a_file_without_a_token_is_rejected(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "token"
    path.write_bytes(content)
    path.chmod(0o600)
    with pytest.raises(TokenFileError, match="must contain a token"):
        BearerToken.kept_in(path)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620])
def test_a_file_that_others_can_use_is_rejected(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "token"
    path.write_text("x" * 20)
    path.chmod(mode)
    with pytest.raises(TokenFileError, match="other users can use"):
        BearerToken.kept_in(path)


def test_a_pipe_is_rejected(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "token", 0o600)
    with pytest.raises(TokenFileError, match="must be a file"):
        BearerToken.kept_in(tmp_path / "token")
