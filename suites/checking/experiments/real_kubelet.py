"""A real kubelet with its control plane as the node of a driver process."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from drahealth.fakes.cluster.clients.access import Access
from drahealth.fakes.cluster.clients.kube_client import access_of
from drahealth.suites.checking.experiments.checkpoint_node import CheckpointNode
from drahealth.suites.checking.lab import Lab
from drahealth.suites.checking.outcomes import Unavailable
from drahealth.suites.checking.sandbox.declared import KUBELET_DIR
from drahealth.suites.checking.sandbox.running import RunningSandbox
from drahealth.suites.checking.subject.gateway import Gateway
from drahealth.suites.checking.subject.objects import create_objects
from drahealth.suites.checking.subject.places import Places
from drahealth.suites.errors import HarnessError
from drahealth.suites.targets.kubelet.target import KubeletTarget

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
    from drahealth.suites.targets.kubelet.binaries.ensure import installed
    from drahealth.suites.targets.kubelet.binaries.releases import DEFAULT_VERSION
    from drahealth.suites.targets.kubelet.node.doctor import private_namespaces

    # A download or a build takes minutes, in which no other experiment could go on.
    if DEFAULT_VERSION not in {one.version for one in installed()}:
        return f"the programs of Kubernetes {DEFAULT_VERSION} are not in the cache; run `drahealth binaries ensure`"
    namespaces = private_namespaces()
    return "" if namespaces.ok else f"{namespaces.found}; {namespaces.hint}"


def _target() -> KubeletTarget:
    from drahealth.suites.targets.definition import Launch
    from drahealth.suites.targets.kubelet.binaries.releases import DEFAULT_VERSION
    from drahealth.suites.targets.kubelet.configuration import KubeletConfiguration
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
