"""The interface of an API server that this process runs, and its directory."""

import json
from contextlib import suppress
from pathlib import Path
from typing import Protocol
from urllib.parse import urlsplit

from drahealth.fakes.cluster.api import ControlPlaneApi
from drahealth.manager.profile import Gates
from drahealth.proto.events import StatusWritten

# Where API servers keep their data below a root directory, and the port in its kubeconfig.


def objects_folder(root: Path) -> Path:
    """The objects of a server in memory."""
    return root / "api"


def data_folder(root: Path) -> Path:
    """The data, keys and logs of a real server."""
    return root / "control-plane"


def port_in(kubeconfig: Path) -> int:
    """The port of the server in a kubeconfig of ours, where drivers that run look for the next one; 0 if none."""
    with suppress(OSError, ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError):
        config = json.loads(kubeconfig.read_bytes())
        return urlsplit(config["clusters"][0]["cluster"]["server"]).port or 0
    return 0


# The interface of an API server that this process runs.

ALL_ON = Gates()


class ApiServerProcess(Protocol):
    """One API server with its store; `api` and `kubeconfig` work from `start` to `stop`."""

    @property
    def api(self) -> ControlPlaneApi:
        """A client of it, with all permissions. `stop` closes it."""

    async def kubeconfig(self) -> Path:
        """A kubeconfig with all permissions, readable by its owner only. The server listens on loopback."""

    async def start(self) -> None:
        """Returns when it is ready. Raises HarnessError."""

    async def stop(self) -> None:
        """Ends it; its data stay. Harmless on a server that never started."""

    async def wait(self) -> None:
        """Raises HarnessError when it has ended unexpectedly; never returns."""

    def check(self) -> None:
        """Raises HarnessError if it has ended unexpectedly."""

    def status_writes(self, namespace: str) -> list[StatusWritten]:
        """The writes of Pod statuses in this namespace since the last call for it. A server that sends each write to
        an observer returns none.
        """

    async def down(self) -> None:
        """Ends all watches and refuses all calls until `up`. Harmless on a server that is down."""

    async def up(self) -> None:
        """Serves the same data again; returns when it is ready. Harmless on a server that is up."""

    async def restart(self, gates: Gates) -> None:
        """Ends all watches, and serves the same data with these feature gates."""
