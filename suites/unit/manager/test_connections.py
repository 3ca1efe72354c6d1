"""Connections of a manager to its plugins."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import grpc.aio
import pytest

from drahealth.fakes.waiting import cancel_and_wait
from drahealth.manager.calls import Context
from drahealth.manager.plugin import DraPlugin
from drahealth.proto.services import PREPARE, UNPREPARE, serve
from drahealth.proto.sockets import target
from drahealth.proto.values import Health
from drahealth.suites.unit.endings import running_since
from drahealth.suites.unit.manager.rig import DRIVER, Node, OddPlugin, until

HEALTH = ("v1.DRAPlugin", "v1.DRAResourceHealth")


class Switchboard:
    """A socket that forwards connections to another one and counts them."""

    def __init__(self, path: Path, to: Path) -> None:
        self.path = path
        self._to = to
        self.accepted = 0
        self._calls: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        self._server = await asyncio.start_unix_server(self._call, self.path)

    async def close(self) -> None:
        self._server.close()
        await cancel_and_wait(*self._calls)

    async def _call(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        try:
            theirs, ours = await asyncio.open_unix_connection(str(self._to))
        except OSError:  # the other end is gone; the manager tries again
            writer.close()
            return
        ways = {asyncio.create_task(carry(*way)) for way in ((reader, ours), (theirs, writer))}
        self._calls |= ways
        await asyncio.wait(ways)
        ours.close()
        writer.close()


async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while data := await reader.read(4096):
            writer.write(data)
    with suppress(OSError):
        writer.write_eof()


async def connected(node: Node, endpoint: Path, versions: tuple[str, ...]) -> Switchboard:
    """A plugin of our driver is registered whose endpoint is a switchboard to another one."""
    board = Switchboard(node.root / "board.sock", endpoint)
    await board.start()
    node.on_close(board.close)
    plugin = OddPlugin(name=DRIVER, endpoint=str(board.path), supported_versions=versions)
    await node.serve(plugin.methods)
    await until(lambda: plugin.told)
    return board


@pytest.mark.counterpart("TestGRPCConnIsReused", "e2e_node/one-connection")
async def test_claims_and_health_use_one_connection(node: Node) -> None:
    driver = node.driver(devices=("gpu-0", "gpu-1", "gpu-2"), registry_dir=str(node.root))
    await driver.start()
    board = await connected(node, driver.endpoint, HEALTH)
    claims = [await node.claim(name, name) for name in ("gpu-0", "gpu-1", "gpu-2")]
    await asyncio.gather(*(node.run_pod(claim.ref.name, claim) for claim in claims))
    await driver.set_health("gpu-2", Health.UNHEALTHY)
    await node.shows("gpu-2", gpu_2="Unhealthy")
    await asyncio.gather(*(node.manager.unprepare(claim.ref.name) for claim in claims))
    assert board.accepted == 1


@pytest.fixture
async def impatient(node: Node) -> AsyncIterator[Path]:
    """A plugin's endpoint that ends a connection over which nothing went for a tenth of a second."""
    plugin, endpoint = OddPlugin(), node.root / "impatient.sock"
    server = grpc.aio.server(options=[("grpc.max_connection_idle_ms", 100)])
    calls: dict[Any, Any] = {m: plugin.methods[m] for m in (PREPARE["v1.DRAPlugin"], UNPREPARE["v1.DRAPlugin"])}
    server.add_generic_rpc_handlers(serve(calls))
    server.add_insecure_port(target(endpoint))
    await server.start()
    yield endpoint
    await server.stop(None)


@pytest.mark.counterpart("TestGRPCConnUsableAfterIdle")
async def test_a_connection_that_ended_for_being_idle_is_made_again(node: Node, impatient: Path) -> None:
    board = await connected(node, impatient, ("v1.DRAPlugin",))
    claim = await node.claim("gpu", "gpu-0")
    await node.manager.prepare("pod", [claim])
    await until(lambda: board.accepted > 1, within=30)
    await node.manager.unprepare("pod")


async def test_a_driver_is_connected_while_an_instance_has_a_connection(node: Node) -> None:
    seen: list[bool] = []
    node.manager.subscribe_to_connections(lambda driver: seen.append(node.manager.connected(driver)))
    driver = await node.run_driver()
    await until(lambda: node.manager.connected(DRIVER))
    await driver.crash()
    await until(lambda: not node.manager.connected(DRIVER))
    await driver.start()
    await until(lambda: node.manager.connected(DRIVER))
    assert seen[:2] == [False, True]


async def test_a_driver_that_deregisters_is_not_connected(node: Node) -> None:
    driver = await node.run_driver()
    await until(lambda: node.manager.connected(DRIVER))
    seen: list[bool] = []
    node.manager.subscribe_to_connections(lambda driver: seen.append(node.manager.connected(driver)))
    await driver.unregister()
    await until(lambda: seen)
    assert seen == [False]


async def test_a_plugin_whose_close_is_cancelled_leaves_no_task(tmp_path: Path) -> None:
    before = asyncio.all_tasks()
    plugin = DraPlugin(
        DRIVER,
        tmp_path / "nobody.sock",
        HEALTH,
        Context(),
        on_report=lambda report: None,
        on_end=lambda: None,
        on_connection=lambda: None,
    )
    plugin.connect()
    closing = asyncio.create_task(plugin.close())
    await asyncio.sleep(0)  # it has begun
    closing.cancel()
    await asyncio.wait([closing])
    assert await running_since(before) == set()
    await plugin.close()
