"""Fake drivers as a process: `drahealth driver serve`, or `python -m drahealth.fakes.serve.session_process`.

    drahealth driver serve [--socket PATH] [--kubeconfig FILE] [--jumping-clock]

The control surface (`control.wire`) is spoken on a unix socket, or on standard input and output. With a socket,
drivers outlive the connection of who made them by two minutes, so that a lost one can be made again; without, they
retire when the input ends. On SIGTERM or SIGINT all drivers retire and the process ends. Without a kubeconfig the API
server is that of the pod that this runs in. Log lines go to standard error.
"""

import argparse
import asyncio
import logging
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack, suppress
from pathlib import Path

from drahealth.fakes.clock import JumpClock
from drahealth.fakes.cluster.api import ListWatch
from drahealth.fakes.cluster.kube_client import client_of
from drahealth.fakes.control.fake_options import DriverOptions, PluginOptions
from drahealth.fakes.control.server import ControlServer
from drahealth.fakes.control.socket_path import listen, make_way
from drahealth.fakes.control.wire import LINE_LIMIT, standard_streams
from drahealth.fakes.hardware.device_plugin import FakeDevicePlugin
from drahealth.fakes.hardware.driver import FakeDriver
from drahealth.fakes.program.errors import CommandError
from drahealth.fakes.waiting import cancel_and_wait
from drahealth.proto.clock import SystemClock
from drahealth.proto.events import Observe
from drahealth.proto.sockets import SocketInUse, check_path

LINGER = 120.0
"""Seconds that drivers behind a socket outlive a connection. A restart of a kubelet or an API server takes less."""


async def serve(api: ListWatch, path: Path | None, *, jumping: bool = False) -> None:
    """Serves on a socket there, or on standard input and output, until SIGTERM or SIGINT, or until the input ends.

    Raises SocketInUse where the path is, and OSError where the socket cannot be made.
    """
    clock = JumpClock() if jumping else SystemClock()

    def make(options: DriverOptions, observe: Observe) -> FakeDriver:
        return FakeDriver(options, api, clock=clock, observe=observe)

    def make_plugin(options: PluginOptions, observe: Observe) -> FakeDevicePlugin:
        return FakeDevicePlugin(options, clock=clock, observe=observe)

    jump = clock.jump if isinstance(clock, JumpClock) else None
    server = ControlServer(make, make_plugin=make_plugin, jump=jump, linger=LINGER if path else 0.0)
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    try:
        await (_on_socket(server, path, stop) if path else _on_standard_streams(server, stop))
    finally:
        await server.close()


async def _on_socket(server: ControlServer, path: Path, stop: asyncio.Event) -> None:
    """A socket that an earlier process has left there is replaced."""
    listening = await asyncio.start_unix_server(server.serve, sock=listen(path), limit=LINE_LIMIT)
    try:
        await stop.wait()
    finally:
        listening.close()
        with suppress(SocketInUse):  # somebody has put another in its place
            make_way(path)


async def _on_standard_streams(server: ControlServer, stop: asyncio.Event) -> None:
    serving = asyncio.create_task(server.serve(*await standard_streams(LINE_LIMIT)))
    stopping = asyncio.create_task(stop.wait())
    await asyncio.wait([serving, stopping], return_when=asyncio.FIRST_COMPLETED)
    await cancel_and_wait(serving, stopping)


def main(arguments: Sequence[str] | None = None, program: str = "drahealth.fakes.serve.session_process") -> None:
    """The program. Exits 2 for wrong arguments, of which a taken path is one, and 3 where it cannot serve."""
    parser = argparse.ArgumentParser(prog=program, description="Fake DRA drivers, controlled over a connection.")
    parser.add_argument(
        "--socket", type=Path, metavar="PATH", help="control socket; default: standard input and output"
    )
    parser.add_argument(
        "--kubeconfig", type=Path, metavar="FILE", help="kubeconfig; default: the API server of the Pod"
    )
    parser.add_argument("--jumping-clock", action="store_true", help="let connections move the clock forward")
    options = parser.parse_args(arguments)
    run(options.socket, options.kubeconfig, jumping=options.jumping_clock, program=program)


def run(path: Path | None, kubeconfig: Path | None, *, jumping: bool, program: str) -> None:
    """Until the input ends, or SIGTERM or SIGINT. Exits as `main` does."""
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr)
    try:
        asyncio.run(_main(path, kubeconfig, jumping))
    except CommandError as complaint:
        print(f"{program}: {complaint}", file=sys.stderr)  # noqa: T201
        raise SystemExit(complaint.code) from None


async def _main(path: Path | None, kubeconfig: Path | None, jumping: bool) -> None:
    if path:
        _check(path)
        os.umask(0o077)  # the socket is for its owner alone
    async with AsyncExitStack() as stack:
        api = await client_of(kubeconfig)
        stack.push_async_callback(api.close)
        try:
            await serve(api, path, jumping=jumping)
        except SocketInUse as taken:
            raise CommandError(str(taken)) from None
        except OSError as error:
            raise CommandError(
                f"{error.filename or path} cannot be created: {error.strerror}; pass another --socket", 3
            ) from None


def _check(path: Path) -> None:
    try:
        check_path(path)
    except ValueError as error:
        raise CommandError(str(error)) from None


if __name__ == "__main__":
    main()
