"""Sockets of fakes: a fake never replaces a foreign socket, and removes only its own file."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from drahealth.fakes.sockets import ServedSocket
from drahealth.proto.sockets import SocketInUse, is_served


@pytest.fixture
def short_folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="dra-") as folder:
        yield Path(folder)


def socket_in(folder: Path, hidden: str = ".a") -> ServedSocket:
    return ServedSocket(folder / "a.sock", folder / hidden, {})


async def test_occupied_socket_path_is_rejected(short_folder: Path) -> None:
    first, second = socket_in(short_folder), socket_in(short_folder, ".b")
    await first.start()
    with pytest.raises(SocketInUse, match=r"another process serves at .*/a.sock; "):
        await second.start()
    await second.stop()
    second.remove()
    assert is_served(short_folder / "a.sock")
    await first.stop()


async def test_abandoned_socket_is_replaced(short_folder: Path) -> None:
    first, second = socket_in(short_folder), socket_in(short_folder, ".b")
    await first.start()
    await first.stop()
    await second.start()
    first.remove()
    assert is_served(short_folder / "a.sock")
    await second.stop()


async def test_removed_file_can_be_restored(short_folder: Path) -> None:
    served = socket_in(short_folder)
    await served.start()
    served.remove()
    before = is_served(served.path)
    served.restore()
    assert (before, is_served(served.path)) == (False, True)
    await served.stop()


def test_socket_path_below_a_file_is_not_served(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert not is_served(tmp_path / "file" / "a.sock")
