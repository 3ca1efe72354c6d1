"""What all unit tests share."""

import asyncio
import logging
import signal
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

import pytest
from hypothesis import settings

from drahealth.fakes.cluster.api_server.http import HttpApi
from drahealth.fakes.cluster.api_server.server import ApiServer
from drahealth.suites.errors import HarnessError
from drahealth.suites.processes import sandbox as namespaces
from drahealth.suites.processes.mounts import Namespace

settings.register_profile("drahealth", deadline=None)  # a machine that is busy makes an example slow, not wrong
settings.load_profile("drahealth")


@pytest.fixture(scope="session", autouse=True)
def events_of_closed_loops_are_dropped() -> Iterator[None]:
    """Drops what gRPC's poller tells an event loop that is closed.

    The poller is one for the process. It hears of the end of a call from another thread, at times only after the test
    with that call and its loop has ended. Then it would raise in the loop of another test, which has no part in it.
    """
    original = asyncio.BaseEventLoop.call_soon_threadsafe

    def call_soon_threadsafe(loop: asyncio.BaseEventLoop, callback: Any, *values: Any, context: Any = None) -> Any:
        return None if loop.is_closed() else original(loop, callback, *values, context=context)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(asyncio.BaseEventLoop, "call_soon_threadsafe", call_soon_threadsafe)
        yield


@pytest.fixture(scope="session", autouse=True)
def ends_of_examples_are_not_logged() -> None:
    """Drops what asyncio logs of an example that hypothesis ended early, by an exception in the task of the test.

    Nobody retrieves it, and asyncio logs it when its garbage is collected: in any later test, which may count errors.
    """
    logging.getLogger("asyncio").addFilter(lambda record: "exception=StopTest(" not in record.getMessage())


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Everything here is asyncio."""
    return "asyncio"


@pytest.fixture(scope="session", autouse=True)
def interrupts_are_not_ignored() -> None:
    """A shell ignores SIGINT in what it runs in the background, and so would all that the tests start."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def private_namespaces() -> None:
    """Skips tests that need namespaces of this machine, of one kind or another."""
    _skip_without(namespaces.ways())


@pytest.fixture(scope="session")
def user_namespaces() -> None:
    """Skips tests that need user namespaces of this machine."""
    _skip_without([namespaces.WITH_USER])


def _skip_without(ways: Sequence[Sequence[Namespace]]) -> None:
    """Skips, with the reason, on a machine that allows none of these namespaces or lacks unshare(1)."""
    try:
        refusals = [namespaces.refusal(options) for options in ways]
    except HarnessError as error:
        refusals = [str(error)]
    if all(refusals):
        pytest.skip(f"this machine allows no private namespaces: {'; '.join(refusals)}")


class Place(Protocol):
    """A folder with an API server."""

    api: ApiServer
    root: Path


@pytest.fixture
async def kubeconfig(rig: Place) -> AsyncIterator[Path]:
    """The way to the rig's API server, for other processes."""
    http = HttpApi(rig.api)
    await http.start()
    http.write_kubeconfig(rig.root / "kubeconfig")
    yield rig.root / "kubeconfig"
    await http.stop()
