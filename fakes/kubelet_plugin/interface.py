"""What a DRA driver is to the helper: the calls that it answers, and what they give and take.

Source: kubeletplugin, `DRAPlugin`, `PrepareResult`, `Device`, `NamespacedObject`; for health, its v0.37.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from drahealth.fakes.cluster.api import Object
from drahealth.proto.values import DeviceHealth


@dataclass(frozen=True, slots=True)
class NamespacedObject:
    """A name in a namespace, and whose it was."""

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
    """The requests of the claim that it is for; none: all of them. What follows a slash is left out."""
    cdi_ids: tuple[str, ...] = ()
    """Each as `vendor/class=name`."""
    share_id: str | None = None
    """Which share of a device that several claims use; v1beta1 has no place for it."""


@dataclass(frozen=True, slots=True)
class PrepareResult:
    """What came of preparing one claim: its devices, or why not; a kubelet then tries again."""

    devices: tuple[Device, ...] = ()
    error: Exception | None = None


class DRAPlugin(Protocol):
    """A driver. Calls come one after the other unless `Options.serialize` is off."""

    async def prepare_resource_claims(self, claims: Sequence[Object]) -> Mapping[str, PrepareResult]:
        """Prepares the devices of claims, which have been read from the API server and are allocated.

        One result for each claim, by its uid. A kubelet may ask again for what is prepared already. What is raised is
        the answer for all of them.
        """

    async def unprepare_resource_claims(self, claims: Sequence[NamespacedObject]) -> Mapping[str, Exception | None]:
        """Undoes that; no error for what is not prepared. The objects may be gone by now. Results as above."""


class HealthNotSupported(Exception):
    """The devices have no health that could be told; raised by `watch_health`."""


@runtime_checkable
class HealthPlugin(Protocol):
    """A driver that knows how its devices are."""

    def watch_health(self) -> AsyncIterator[Sequence[DeviceHealth]]:
        """All devices as they are, first now, then whenever that changes; what is left out is not told of any more.

        One iteration feeds the streams of all health APIs. When it ends they end, and it begins anew with the next one.
        Raises HealthNotSupported, and they are Unimplemented.
        """
