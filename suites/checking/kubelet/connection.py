"""Connections to a driver. Each has its own socket, as those of two kubelets would."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import grpc.aio

from drahealth.manager.profile import KEP
from drahealth.proto.sockets import target

_OPTIONS = [
    ("grpc.use_local_subchannel_pool", 1),  # otherwise gRPC shares one socket between all channels to a path
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.max_reconnect_backoff_ms", 500),
    ("grpc.max_receive_message_length", KEP.largest_report),
]


@asynccontextmanager
async def connected(path: Path) -> AsyncGenerator[grpc.aio.Channel, None]:
    """A connection to the socket, opened at the first call. Raises ValueError for an invalid path."""
    async with grpc.aio.insecure_channel(target(path), options=_OPTIONS) as channel:
        yield channel
