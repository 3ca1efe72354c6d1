"""A real kubelet with its control plane as the node of a driver process."""

import asyncio
import json
import os
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from drahealth.fakes.cluster.access import Access
from drahealth.fakes.cluster.allocation import reserved
from drahealth.fakes.cluster.api import CLAIMS, NODES, ApiError, ControlPlaneApi, Object
from drahealth.fakes.cluster.kube_client import KubeClient, access_of
from drahealth.manager.profile import Profile
from drahealth.manager.releases import MINORS, for_release
from drahealth.proto.events import PreparedClaim, PreparedClaimsRead
from drahealth.proto.values import MESSAGE_GATE, STATUS_GATE, ClaimRef
from drahealth.suites.driver_checks.experiments import Incomplete, NotApplicable, Unavailable
from drahealth.suites.driver_checks.lab import Lab
from drahealth.suites.driver_checks.observed import Device, answered, at, mapping, sequence, text, texts
from drahealth.suites.driver_checks.subject.gateway import Gateway, create_objects
from drahealth.suites.driver_checks.subject.places import Places
from drahealth.suites.driver_checks.subject.sandbox import KUBELET_DIR
from drahealth.suites.errors import HarnessError
from drahealth.suites.processes.sandbox import RunningSandbox
from drahealth.suites.targets.kubelet.target import KubeletTarget
from drahealth.suites.targets.versions import enabled

# The node of a real kubelet, which does not show its calls: its checkpoint has the prepared claims.

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


# The node of a driver in a Pod of a cluster, as the node of Pods with claims for the driver.

_PAUSE = "/pause"


@dataclass(frozen=True, slots=True)
class ClusterKubelet(CheckpointNode):
    """The kubelet of the driver's node."""

    image: str
    """An image that is on the node, whose program waits."""


async def cluster_kubelet(lab: Lab) -> ClusterKubelet:
    """The kubelet of the node. Raises NotApplicable for a release that does not show the claims of the Pod, or without
    the feature gates.

    Raises Incomplete if the gates or its checkpoint cannot be read, and if there is no image for a Pod.
    """
    api, name, root = lab.subject.api, lab.subject.places.node_name, lab.subject.places.kubelet_dir
    assert isinstance(api, KubeClient), "the driver has no cluster"
    node = await api.get(NODES, name)
    version = kubelet_version(node)
    profile = for_release(version)
    if profile is None:
        raise NotApplicable(f"the kubelet of node {name} has version {version}, not one of {', '.join(MINORS)}")
    if profile.claims_shown != "all":
        raise NotApplicable(
            f"the kubelet of node {name} has version {version}, which does not show claims that a Pod names directly"
        )
    for component, path in (("kubelet", f"/api/v1/nodes/{name}/proxy/metrics"), ("API server", "/metrics")):
        try:
            gates = enabled(await api.connection.text(path))
        except ApiError as error:
            raise Incomplete(f"cannot read the feature gates of the {component}: {error}") from None
        if off := [gate for gate in (STATUS_GATE, MESSAGE_GATE) if not gates.get(gate, True)]:
            raise NotApplicable(f"feature gate {off[0]} of the {component} is off")
    if not os.access(root / CLAIMS_FILE, os.R_OK):
        raise Incomplete(f"cannot read {root / CLAIMS_FILE}, the checkpoint of the kubelet")
    image = next(pause_images(node), "")
    if not image:
        raise Incomplete(f"node {name} has no image of the program pause, which the Pod runs")
    return ClusterKubelet(lab, api, name, profile, root, image)


def kubelet_version(node: Object) -> str:
    """The version of the kubelet of a Node; empty without one."""
    info = (node.get("status") or {}).get("nodeInfo") or {}
    return str(info.get("kubeletVersion", ""))


def pause_images(node: Object) -> Iterator[str]:
    """The names with a tag of the images of the program pause that a Node lists."""
    for one in (node.get("status") or {}).get("images") or ():
        for name in one.get("names") or ():
            if "@" not in name and _PAUSE in name.rpartition(":")[0]:
                yield name


# A real kubelet with its control plane as the node of a driver process.

_one_at_a_time = asyncio.Lock()
"""A control plane needs much of a small machine: the experiments of several runs take turns."""


@dataclass(frozen=True, slots=True)
class RealKubelet(CheckpointNode):
    """A running kubelet of drahealth."""

    target: KubeletTarget

    def check(self) -> None:
        """Raises Unavailable if it has died."""
        try:
            self.target.check()
        except HarnessError as error:
            raise Unavailable(f"the kubelet failed: {error}") from None


@asynccontextmanager
async def real_kubelet(lab: Lab, *, own_directories: bool = False) -> AsyncGenerator[RealKubelet, None]:
    """A kubelet of the default release, in whose directories the driver starts.

    With `own_directories` the driver keeps those that it has, and gets only the API server.
    Raises Unavailable if this machine cannot run it.
    """
    async with _one_at_a_time:
        target = _target()
        try:
            try:
                await target.start()
            except HarnessError as error:
                raise Unavailable(f"no real kubelet can run here: {error}") from None
            await _move(lab, target, own_directories=own_directories)
            root = target.registry_dir.parent
            yield RealKubelet(lab, target.client, target.node_name, target.profile, root, target)
        finally:
            await target.stop()


def absence() -> str:
    """Why no real kubelet can run here, as far as can be seen without a start; empty if there is no reason."""
    from drahealth.manager.releases import DEFAULT_VERSION
    from drahealth.suites.targets.kubelet.doctor import private_namespaces
    from drahealth.suites.targets.kubelet.ensure import installed

    # A download or a build takes minutes, in which no other experiment could go on.
    if DEFAULT_VERSION not in {one.version for one in installed()}:
        return f"the programs of Kubernetes {DEFAULT_VERSION} are not in the cache; run `drahealth binaries ensure`"
    namespaces = private_namespaces()
    return "" if namespaces.ok else f"{namespaces.found}; {namespaces.hint}"


def _target() -> KubeletTarget:
    from drahealth.manager.releases import DEFAULT_VERSION
    from drahealth.suites.targets.kubelet.target import KubeletConfiguration
    from drahealth.suites.targets.registry import Launch
    from drahealth.suites.targets.versions import profile_of

    if reason := absence():
        raise Unavailable(f"no real kubelet can run here: {reason}")
    try:
        return KubeletConfiguration(profile_of(DEFAULT_VERSION), DEFAULT_VERSION).make(Launch())
    except HarnessError as error:
        raise Unavailable(f"no real kubelet can run here: {error}") from None


async def _move(lab: Lab, target: KubeletTarget, *, own_directories: bool) -> None:
    """Gives the driver the directories and the API server of the kubelet, or only the API server."""
    subject, setup = lab.subject, lab.subject.kubelet_setup
    assert setup, "drahealth does not start the driver"
    kubeconfig = await target.kubeconfig()
    access = await access_of(kubeconfig)
    for secret in (await access.headers()).values():
        setup.hide(secret.removeprefix("Bearer "))
    old, root = subject.places, target.registry_dir.parent
    if own_directories:
        places = replace(old, kubeconfig=kubeconfig, node_name=target.node_name)
        if setup.sandbox:
            places = replace(places, kubeconfig=await _served_in_sandbox(lab, setup.sandbox, access))
        await create_objects(target.api, setup.objects, places)
        subject.move(places, target.api)
        return
    places = Places(
        root, target.registry_dir, target.plugins_dir, old.cdi_dir, kubeconfig, target.node_name, old.driver_name
    )
    places.make()
    if setup.sandbox:
        places = await _in_sandbox(lab, setup.sandbox, places, access, target.device_plugins_dir)
    await create_objects(target.api, setup.objects, places)
    subject.move(places, target.api)
    if subject.adapters:
        await subject.adapters.move(subject.faults, places.placeholders(), target.api, places.outside)


async def _in_sandbox(
    lab: Lab, sandbox: RunningSandbox, places: Places, access: Access, device_plugins: Path
) -> Places:
    """Shows the directories of the kubelet and its API server in the driver's sandbox. Raises HarnessError."""
    old = lab.subject.places
    kubeconfig = await _served_in_sandbox(lab, sandbox, access)
    places = replace(
        places, kubeconfig=kubeconfig, more_cdi_dirs=old.more_cdi_dirs, service_account=old.service_account
    )
    if not old.seen:  # without a mount namespace it sees the paths of this machine
        return places
    for folder, directory in ((places.kubelet_dir, KUBELET_DIR), (device_plugins, f"{KUBELET_DIR}/device-plugins")):
        await sandbox.mount(folder, directory)
    others = [pair for pair in old.seen if not pair[0].is_relative_to(KUBELET_DIR)]
    seen = ((Path(KUBELET_DIR, "device-plugins"), device_plugins), (Path(KUBELET_DIR), places.kubelet_dir), *others)
    return replace(places, seen=seen)


async def _served_in_sandbox(lab: Lab, sandbox: RunningSandbox, access: Access) -> Path:
    """Serves the API server in the sandbox; returns the kubeconfig for it."""
    setup, kubeconfig = lab.subject.kubelet_setup, lab.subject.places.kubeconfig
    assert setup
    assert kubeconfig
    gateway = Gateway(access, sandbox.bound)
    lab.subject.kept.push_async_callback(gateway.stop)
    await gateway.start(kubeconfig)
    setup.hide(gateway.token)
    if account := lab.subject.places.service_account:
        gateway.write_service_account(account)
    return kubeconfig
