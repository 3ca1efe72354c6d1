"""What a running driver says of itself: GetInfo, and its ResourceSlices."""

from collections.abc import AsyncIterator

from drahealth.fakes.cluster.api import SLICES, ApiError
from drahealth.fakes.cluster.clients.kube_client import KubeClient
from drahealth.manager.registration import Socket, find_sockets
from drahealth.proto.clock import SystemClock
from drahealth.proto.events import ignore
from drahealth.proto.quoting import one_line
from drahealth.suites.checking.experiments.allocating import published_devices
from drahealth.suites.checking.kubelet.registration import DRA_PLUGIN, Found, registrar
from drahealth.suites.checking.settings import Settings
from drahealth.suites.errors import ConfigurationError

_SHOWN = 20
"""Devices that are named."""


async def describe(settings: Settings) -> list[str]:
    """Sentences about the driver of these settings. Raises ConfigurationError unless there is exactly one."""
    found = [one async for one in _drivers(settings)]
    if len(found) != 1:
        place = settings.socket or settings.registry_dir
        names = f": {', '.join(sorted(one.info.name for one in found))}" if found else ""
        raise ConfigurationError(
            f"{place} has {len(found)} DRA drivers{names}", "start the driver, or pass one registration socket"
        )
    info = found[0].info
    lines = [f"Driver {one_line(info.name)}, which advertises {one_line(', '.join(info.supported_versions))}."]
    return [*lines, await _devices(settings, info.name)] if settings.kubeconfig else lines


async def _drivers(settings: Settings) -> AsyncIterator[Found]:
    directory = settings.registry_dir or (settings.socket and settings.socket.parent)
    assert directory
    for socket in find_sockets(directory):
        if settings.socket in (None, socket.path):
            answer = await _asked(socket)
            if answer.info is not None and answer.info.type == DRA_PLUGIN:
                yield answer


async def _asked(socket: Socket) -> Found:
    async with registrar(socket, SystemClock(), ignore) as calls:
        return await calls.get_info()


async def _devices(settings: Settings, driver: str) -> str:
    assert settings.kubeconfig
    try:
        client = await KubeClient.from_kubeconfig(settings.kubeconfig)
    except ValueError as error:
        raise ConfigurationError(str(error), "pass another --kubeconfig") from None
    try:
        slices = [one for one in await client.list(SLICES) if one["spec"].get("driver") == driver]
    except ApiError as error:
        raise ConfigurationError(f"cannot list ResourceSlices: {error}", "pass another --kubeconfig") from None
    finally:
        await client.close()
    names = [device.id.device for device in published_devices(slices)]
    more = f" and {len(names) - _SHOWN} others" if len(names) > _SHOWN else ""
    return (
        f"It publishes {len(names)} devices: {one_line(', '.join(names[:_SHOWN]))}{more}."
        if names
        else "It publishes no device."
    )
