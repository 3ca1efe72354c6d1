"""What all unit tests share."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Protocol

import pytest
from hypothesis import settings

from drahealth.fakes.cluster.api_server.http import HttpApi
from drahealth.fakes.cluster.api_server.server import ApiServer

settings.register_profile("drahealth", deadline=None)  # a machine that is busy makes an example slow, not wrong
settings.load_profile("drahealth")


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Everything here is asyncio."""
    return "asyncio"


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
