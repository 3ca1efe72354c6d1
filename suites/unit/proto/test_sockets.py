"""Paths of unix sockets as gRPC addresses."""

import tempfile
from pathlib import Path

import grpc.aio
import pytest

from drahealth.proto.sockets import PATH_LIMIT, check_path, target


@pytest.mark.parametrize("name", ["plain", "a b", "100%", "a%20b", "a?b=c#d", "é", "new\nline", "\udcff"], ids=ascii)
async def test_server_is_reachable_at_any_socket_name(name: str) -> None:
    with tempfile.TemporaryDirectory(prefix="dra-") as folder:
        path = Path(folder) / name
        server = grpc.aio.server()
        server.add_insecure_port(target(path))
        await server.start()
        assert path.is_socket()
        async with grpc.aio.insecure_channel(target(path)) as channel:
            await channel.channel_ready()
        await server.stop(None)


@pytest.mark.parametrize(("length", "fits"), [(PATH_LIMIT, True), (PATH_LIMIT + 1, False)])
def test_a_path_has_at_most_107_bytes(length: int, fits: bool) -> None:
    path = Path("/" + "é" * ((length - 1) // 2) + "x" * ((length - 1) % 2))
    if fits:
        assert target(path).startswith("unix:/%C3%A9")
    else:
        with pytest.raises(ValueError, match="has more than 107 bytes; use a shorter directory"):
            target(path)


def test_a_path_has_no_zero_byte() -> None:
    with pytest.raises(ValueError, match=r"'/a.x00b' has a zero byte in it"):
        check_path(Path("/a\0b"))
