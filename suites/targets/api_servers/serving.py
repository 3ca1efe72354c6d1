"""An API server of either kind, for the time of a block.

async with api_server("real", root) as server:
    await server.api.list(SLICES)
    ... "--kubeconfig", str(await server.kubeconfig()) ...
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from drahealth.suites.targets.api_servers.options import ApiServerKind
from drahealth.suites.targets.api_servers.server import ApiServerProcess
from drahealth.suites.targets.progress import Progress, silent


@asynccontextmanager
async def api_server(
    kind: ApiServerKind, root: Path, *, kubernetes: str | None = None, progress: Progress = silent
) -> AsyncIterator[ApiServerProcess]:
    """An API server of this kind while it is entered, with `root/kubeconfig`; nothing else stays running.

    A real one keeps its data in `root/control-plane`, and continues with them. `kubernetes` is its release; None for
    the default. Its programs are downloaded or built first if they are not in the cache; that blocks for minutes.
    Raises ConfigurationError for an unknown release, and HarnessError if it cannot be started.
    """
    server: ApiServerProcess
    if kind == "real":
        from drahealth.suites.targets.api_servers.real import real_api_servers

        server = real_api_servers(kubernetes, progress)(root)
    else:
        from drahealth.suites.targets.api_servers.memory import MemoryApiServer

        server = MemoryApiServer(root)
    try:
        await server.start()
        await server.kubeconfig()
        yield server
    finally:
        await server.stop()
