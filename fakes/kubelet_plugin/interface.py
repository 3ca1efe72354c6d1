"""The interface between a DRA driver and the helper: the driver's functions, their arguments and results.

Source: kubeletplugin, `DRAPlugin`, `PrepareResult`, `Device`, `NamespacedObject`; for health, its v0.37.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from drahealth.fakes.cluster.api import Object
from drahealth.proto.values import DeviceHealth


@dataclass(frozen=True, slots=True)
class NamespacedObject:
    """Namespace, name and uid of an object."""

    namespace: str
    name: str
    uid: str = ""

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}:{self.uid}"


@dataclass(frozen=True, slots=True)
class Device:
    """A prepared device."""

    pool: str
    device: str
    requests: tuple[str, ...] = ()
    """Requests of the claim that use the device; empty: all. The helper removes subrequests (the part after `/`)."""
    cdi_ids: tuple[str, ...] = ()
    """Each as `vendor/class=name`."""
    share_id: str | None = None
    """Id of the share, for a device that several claims share; v1beta1 has no such field."""


@dataclass(frozen=True, slots=True)
class PrepareResult:
    """Result of preparing one claim: its devices, or an error; after an error a kubelet retries."""

    devices: tuple[Device, ...] = ()
    error: Exception | None = None


class DRAPlugin(Protocol):
    """A driver. The helper calls it serially unless `Options.serialize` is False."""

    async def prepare_resource_claims(self, claims: Sequence[Object]) -> Mapping[str, PrepareResult]:
        """Prepares the devices of allocated claims, as read from the API server.

        Returns one result for each claim uid. A kubelet may repeat the call for a prepared claim. An exception fails
        the whole call.
        """

    async def unprepare_resource_claims(self, claims: Sequence[NamespacedObject]) -> Mapping[str, Exception | None]:
        """Releases the devices of claims; a claim that is not prepared is no error. The API objects may be deleted.

        Returns an error or None for each claim uid. An exception fails the whole call.
        """


class HealthNotSupported(Exception):
    """Raised by `watch_health` if the driver cannot report device health."""


@runtime_checkable
class HealthPlugin(Protocol):
    """A driver that reports device health."""

    def watch_health(self) -> AsyncIterator[Sequence[DeviceHealth]]:
        """Yields the health of all devices: once at the start, then after each change. Omitted devices are removed.

        One iteration feeds the streams of all health APIs. When it ends, the streams end; the next stream starts a new
        iteration. After HealthNotSupported the health APIs answer Unimplemented.
        """
