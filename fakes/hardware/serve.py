"""A fake driver as a process: `python -m drahealth.fakes.hardware.serve`, told what to do over its standard streams.

    python -m drahealth.fakes.hardware.serve OPTIONS KUBECONFIG [--jumping-clock]

OPTIONS are DriverOptions as JSON. The control surface of `remote` is spoken on standard input and output; when the
input ends, or on SIGTERM, the driver stops and the process ends. Log lines go to standard error.
"""

import argparse
import asyncio
import logging
import signal
import sys
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from drahealth.fakes.clients.kube_client import KubeClient
from drahealth.fakes.clock import JumpClock
from drahealth.fakes.hardware.control import DriverOptions
from drahealth.fakes.hardware.driver import FakeDriver
from drahealth.fakes.hardware.remote import LINE_LIMIT, ControlServer
from drahealth.proto.clock import Clock, SystemClock
from drahealth.proto.events import Event


async def serve(options: DriverOptions, kubeconfig: Path, clock: Clock) -> None:
    """Runs the driver until standard input ends or the process is told to terminate. ValueError for bad paths."""
    api = await KubeClient.from_kubeconfig(kubeconfig)
    try:
        await _serve(options, api, clock)
    finally:
        await api.close()


async def _serve(options: DriverOptions, api: KubeClient, clock: Clock) -> None:
    def observe(event: Event) -> None:
        server.observe(event)

    driver = FakeDriver(options, api, clock=clock, observe=observe)
    server = ControlServer(driver)
    reader, writer = await _standard_streams()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, reader.feed_eof)
    try:
        await server.serve(reader, writer)
    finally:
        await driver.stop()


async def _standard_streams() -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=LINE_LIMIT)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    transport, protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, sys.stdout)
    return reader, asyncio.StreamWriter(transport, protocol, reader, loop)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="drahealth.fakes.hardware.serve", description="A fake DRA driver as a process."
    )
    parser.add_argument("options", type=_options, help="DriverOptions as JSON")
    parser.add_argument("kubeconfig", type=Path)
    parser.add_argument("--jumping-clock", action="store_true", help="live on a clock that the control surface jumps")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr)
    try:
        asyncio.run(
            serve(arguments.options, arguments.kubeconfig, JumpClock() if arguments.jumping_clock else SystemClock())
        )
    except ValueError as error:
        sys.exit(f"{parser.prog}: {error}")


def _options(text: str) -> DriverOptions:
    try:
        return TypeAdapter(DriverOptions).validate_json(text)
    except ValidationError as error:
        wrong = (": ".join(filter(None, (".".join(map(str, e["loc"])), e["msg"]))) for e in error.errors())
        raise argparse.ArgumentTypeError("; ".join(wrong)) from None


if __name__ == "__main__":
    main()
