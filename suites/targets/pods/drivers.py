"""The connection to fake drivers in pods: one long exec stream to the pod of a node."""

import asyncio
from collections.abc import Awaitable, Callable

from drahealth.fakes.cluster.api import ApiError
from drahealth.fakes.cluster.clients.exec_stream import ExecStream
from drahealth.fakes.cluster.clients.kube_client import KubeClient
from drahealth.fakes.control.remote import Connect, RemoteHost
from drahealth.fakes.control.wire import LINE_LIMIT, Writer
from drahealth.suites.targets.pods.manifests import CONTROL_SOCKET

PATIENCE = 90.0
"""Seconds that a stream may be interrupted: it passes the API server and the kubelet, and either may restart."""
_HANDSHAKE = 10.0
_COMMAND = ("python", "-m", "drahealth.fakes.control.connect", CONTROL_SOCKET)

Gone = Callable[[], Awaitable[str]]
"""Returns why the pod is gone; empty if it runs."""


def connect_to(client: KubeClient, namespace: str, pod: str, gone: Gone) -> Connect:
    """Connects to the process of the drivers in the pod. Raises OSError for an error that is worth another try."""

    async def connect() -> tuple[asyncio.StreamReader, Writer]:
        try:
            async with asyncio.timeout(_HANDSHAKE):
                stream = await ExecStream.open(client.connection, namespace, pod, _COMMAND, limit=LINE_LIMIT)
        except ApiError as error:
            if reason := await _reason(gone):
                raise RuntimeError(reason) from error
            raise ConnectionError(str(error)) from error
        return stream.reader, stream

    return connect


async def _reason(gone: Gone) -> str:
    try:
        return await gone()
    except ApiError:
        return ""  # the API server is stopped as well


def host_in(client: KubeClient, namespace: str, pod: str, gone: Gone) -> RemoteHost:
    """The remote host that makes drivers in that pod."""
    return RemoteHost(connect_to(client, namespace, pod, gone), patience=PATIENCE)
