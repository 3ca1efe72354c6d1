"""The node of a real kubelet, which does not show its calls: its checkpoint has the prepared claims."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from drahealth.fakes.cluster.api import CLAIMS, Object
from drahealth.fakes.cluster.list_watch import ControlPlaneApi
from drahealth.fakes.cluster.scheduling.claims import reserved
from drahealth.manager.profile import Profile
from drahealth.proto.events import PreparedClaim, PreparedClaimsRead
from drahealth.proto.values import ClaimRef
from drahealth.suites.checking.lab import Lab
from drahealth.suites.checking.observed.claims import answered
from drahealth.suites.checking.observed.devices import Device
from drahealth.suites.checking.observed.plain import at, mapping, sequence, text, texts

CLAIMS_FILE = "dra_manager_state"
"""The checkpoint of prepared claims, in the kubelet's root directory (P-33)."""
DEFAULT_SCHEDULER = "default-scheduler"
"""The scheduler of a Pod that names none."""


@dataclass(frozen=True, slots=True)
class CheckpointNode:
    """A node with a real kubelet, in a cluster without a scheduler for its Pods. Implements `PodNode`."""

    lab: Lab
    api: ControlPlaneApi
    node_name: str
    profile: Profile
    """Profile of the kubelet's release."""
    root: Path
    """The root directory of the kubelet."""

    @property
    def scheduler(self) -> str:
        """A name that no scheduler has: drahealth binds the Pod."""
        return "drahealth"

    async def schedule(self, pod: Object, claims: Sequence[ClaimRef]) -> None:
        """Reserves the claims for the Pod, and binds it: kube-scheduler ignores it.

        kube-scheduler cannot reserve a claim that drahealth has allocated.
        """
        for ref in claims:
            claim = await self.api.get(CLAIMS, ref.name, ref.namespace)
            await self.api.replace_status(CLAIMS, reserved(claim, pod))
        await self.api.bind(pod["metadata"]["name"], pod["metadata"]["namespace"], self.node_name)

    def look(self) -> None:
        """Records the claims that the kubelet has prepared."""
        self.lab.record(PreparedClaimsRead(tuple(self._prepared())))

    def cdi_ids(self, device: Device) -> tuple[str, ...]:
        """Those in its checkpoint."""
        found = (answered(one) for claim in self._prepared() for one in claim.devices)
        return next((one.cdi_ids for one in found if one.device == device), ())

    def check(self) -> None:
        """Raises Unavailable if the kubelet has died."""

    def _prepared(self) -> list[PreparedClaim]:
        try:
            return list(prepared_claims(json.loads((self.root / CLAIMS_FILE).read_bytes())))
        except (OSError, ValueError):  # no claim was prepared
            return []


def prepared_claims(checkpoint: Any) -> Iterator[PreparedClaim]:
    """The prepared claims in a kubelet's checkpoint. Another format has none."""
    try:
        state = json.loads(text(checkpoint, "Data"))
    except ValueError:
        return
    for claim in sequence(state, "ClaimInfoStateList"):
        for driver in mapping(claim, "DriverState"):
            devices = sequence(at(claim, "DriverState", driver), "Devices")
            yield PreparedClaim(text(claim, "ClaimUID"), driver, tuple(map(_device, devices)))


def _device(device: Any) -> dict[str, Any]:
    return {
        "pool_name": text(device, "PoolName"),
        "device_name": text(device, "DeviceName"),
        "request_names": list(texts(device, "RequestNames")),
        "cdi_device_ids": list(texts(device, "CDIDeviceIDs")),
    }
