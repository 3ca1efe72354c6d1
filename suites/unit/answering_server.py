"""An API server that gives the answers of a test, and a kubeconfig for it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from aiohttp import web
from aiohttp.test_utils import TestServer

_KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: c
clusters: [{{name: c, cluster: {{server: "{url}"}}}}]
users: [{{name: c, user: {{token: t}}}}]
contexts: [{{name: c, context: {{cluster: c, user: c}}}}]
"""


@asynccontextmanager
async def kubeconfig_of(answers: web.Application, folder: Path) -> AsyncIterator[Path]:
    """Serves the application on loopback; the kubeconfig is in the folder."""
    async with TestServer(answers) as server:
        path = folder / "kubeconfig.yaml"
        path.write_text(_KUBECONFIG.format(url=str(server.make_url("")).rstrip("/")))
        yield path
