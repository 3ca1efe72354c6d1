"""Makes the subjects of a run: directories, API servers and gateways for each driver process."""

import fcntl
import os
from collections.abc import AsyncGenerator, Generator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from socket import gethostname
from typing import Protocol

from drahealth.fakes.cluster.access import Access
from drahealth.fakes.cluster.api import NODES, ApiError, ListWatch
from drahealth.fakes.cluster.kube_client import KubeClient, access_of
from drahealth.manager.profile import KEP
from drahealth.manager.releases import DEFAULT_VERSION
from drahealth.proto.clock import Clock
from drahealth.proto.events import Event
from drahealth.suites.driver_checks.driver_run import DriverRun
from drahealth.suites.driver_checks.experiments import Process
from drahealth.suites.driver_checks.subject.cluster import Cluster, cluster
from drahealth.suites.driver_checks.subject.driver_pod import PROCESS_LABEL, RUN_LABEL, DriverPod, InCluster
from drahealth.suites.driver_checks.subject.gateway import Bind, Gateway, bound_here, create_objects, with_placeholders
from drahealth.suites.driver_checks.subject.helper_process import HelperProcess, Helpers
from drahealth.suites.driver_checks.subject.places import Places, private_places, sandboxed
from drahealth.suites.driver_checks.subject.subject import AdaptersOf, KubeletSetup, Subject, Surroundings
from drahealth.suites.errors import ConfigurationError
from drahealth.suites.processes.sandbox import RunningSandbox
from drahealth.suites.targets.api_servers import ApiServerProcess, api_server
from drahealth.suites.targets.option import ApiServerKind
from drahealth.suites.targets.versions import profile_of

_WITH_KUBELET = ("kubelet", "kubelet-broken")
"""Processes on a real kubelet, which brings its own API server."""
_WITH_PODS = ("pod", "pod-broken", *_WITH_KUBELET)
"""Processes with Pods: none of them uses the cluster of others."""


class Records(Protocol):
    """What a subject records with."""

    def of_current(self, event: Event) -> None:
        """Records an event of the current experiment."""

    def of_process(self, process: Process, event: Event) -> None:
        """Records an event in each running experiment of the process."""

    def hide(self, secret: str) -> None:
        """Keeps a secret out of all later records."""


@asynccontextmanager
async def laboratory(
    run: DriverRun,
    processes: Sequence[Process],
    root: Path,
    clock: Clock,
    records: Records,
    adapters: AdaptersOf | None = None,
) -> AsyncGenerator[Mapping[Process, Subject], None]:
    """The subjects by their labels. Afterwards no driver runs, and no API server of ours.

    Raises ConfigurationError, and HarnessError if the API server cannot be started.
    """
    async with AsyncExitStack() as stack:
        found = {}
        others = await _cluster(run, root, stack)
        for number, label in enumerate(processes):
            if run.in_cluster:
                assert others
                subject = await _deployed(run, run.in_cluster, label, clock, records, others)
            elif run.profile.driver.command:
                subject = await _started(run, label, root / str(number), clock, records, stack, others)
            else:
                subject = await _running(run, label, clock, records, stack)
            if run.profile.fault:
                assert adapters, "faults need adapters"
                await _add_faults(subject, run, adapters, stack)
            stack.push_async_callback(subject.close)
            found[label] = subject
        yield found


async def _cluster(run: DriverRun, root: Path, stack: AsyncExitStack) -> Cluster | None:
    """The user's cluster, if it is the API server of drivers that drahealth starts, or if they run there."""
    declared = run.in_cluster
    if not (declared or run.profile.api_server.kubeconfig):
        return None
    assert run.profile.kubeconfig
    objects = [dict(one) for one in run.objects]
    if declared is None:
        return await stack.enter_async_context(cluster(run.profile.kubeconfig, root, objects))
    places = declared.places(run.profile.driver.name)
    stack.enter_context(locked(places, declared.cluster.node))
    kinds = [*objects, dict(declared.workload)]
    found = await stack.enter_async_context(cluster(run.profile.kubeconfig, root, kinds, pods=True))
    await found.use_node(declared.cluster.node)
    await create_objects(found.api, run.objects, places, found.add)
    return found


@contextmanager
def locked(places: Places, node: str) -> Generator[None, None, None]:
    """Keeps other runs away from the drivers of a node. Raises ConfigurationError.

    Drivers lock the directories of plugins, so this is a lock of the kubelet's own directory.
    """
    try:
        list(places.registry_dir.iterdir())
        lock = os.open(places.kubelet_dir, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        what = f"cannot read {places.registry_dir}: {error.strerror}"
        raise ConfigurationError(
            what, f"set `root` to the place of the directories of node {node} on this machine"
        ) from None
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ConfigurationError(f"another run certifies a driver on node {node}", "wait for its end") from None
        yield
    finally:
        os.close(lock)


async def _deployed(
    run: DriverRun, declared: InCluster, label: Process, clock: Clock, records: Records, others: Cluster
) -> Subject:
    """A driver that drahealth starts in a Pod. Its kubelet and its API server are those of the cluster."""
    places = declared.places(run.profile.driver.name)
    workload = with_placeholders(declared.workload, places.placeholders())
    labels = {RUN_LABEL: others.run, PROCESS_LABEL: label}
    return Subject(
        label,
        places,
        clock,
        records.of_current,
        record_exit=partial(records.of_process, label),
        api=others.api,
        shares_api=True,
        launch=partial(DriverPod.start, others.api, declared, workload, labels, clock),
    )


async def _add_faults(subject: Subject, run: DriverRun, adapters: AdaptersOf, stack: AsyncExitStack) -> None:
    """Starts the adapters, whose backends run before the driver, and until after its end."""
    subject.faults = run.profile.fault
    places = subject.places
    folder = run.profile.driver.working_directory
    around = Surroundings(subject.clock, subject.api, folder, subject.entry, places.outside)
    subject.adapters = adapters(around)
    stack.push_async_callback(subject.adapters.close)
    await subject.adapters.start(run.profile.fault, places.placeholders())


async def _started(
    run: DriverRun,
    label: Process,
    root: Path,
    clock: Clock,
    records: Records,
    stack: AsyncExitStack,
    others: Cluster | None,
) -> Subject:
    """A driver that drahealth starts, with a kubelet's directories, and an API server of its own or of others.

    It does not share an API server of ours, because ResourceSlices can belong to no node.
    """
    others = None if label in _WITH_PODS else others
    node = others.node(label) if others else f"node-{label}"
    api: ListWatch | None = None
    gateway, server = None, None
    kubeconfig = root / "kubeconfig" if run.profile.api_server_kind != "none" else None
    places = _places(run, root, kubeconfig, node)
    running = None
    if declared := run.sandbox:
        running = await stack.enter_async_context(sandboxed(declared, root))
    is_real, release = run.profile.api_server_kind == "real", run.profile.api_server.kubernetes
    profile = profile_of(release or DEFAULT_VERSION) if is_real else KEP
    if kubeconfig and label not in _WITH_KUBELET:
        if others:
            api, access = others.api, await access_of(others.kubeconfig)
            await create_objects(api, run.objects, places, others.add)
        else:
            server = await stack.enter_async_context(_api_server(run, root / "api"))
            api, access = server.api, await access_of(await server.kubeconfig())
            await create_objects(api, run.objects, places)
        gateway = await _gateway(access, running.bound if running else bound_here, records)
        stack.push_async_callback(gateway.stop)
        await gateway.start(kubeconfig)
        if places.service_account:
            gateway.write_service_account(places.service_account)
    return Subject(
        label,
        places,
        clock,
        records.of_current,
        record_exit=partial(records.of_process, label),
        command=run.profile.driver.command,
        environment=run.profile.driver.environment,
        folder=run.profile.driver.working_directory,
        api=api,
        gateway=gateway,
        sandbox=running,
        helpers=_helpers(run, places, clock, running),
        kubelet_setup=KubeletSetup(server, profile, run.objects, records.hide, running),
        shares_api=others is not None,
    )


def _helpers(run: DriverRun, places: Places, clock: Clock, running: RunningSandbox | None) -> Helpers:
    entry = running.entry if running else ()
    folder = run.profile.driver.working_directory
    return Helpers([HelperProcess(one, places, clock, folder=folder, entry=entry) for one in run.profile.helper])


def _api_server(run: DriverRun, folder: Path) -> AbstractAsyncContextManager[ApiServerProcess]:
    folder.mkdir(mode=0o700, parents=True)
    kind: ApiServerKind = "real" if run.profile.api_server_kind == "real" else "memory"
    return api_server(kind, folder, kubernetes=run.profile.api_server.kubernetes)


async def _gateway(access: Access, bind: Bind, records: Records) -> Gateway:
    """A gateway to the server, not started. Its credentials, and those of the server, are secrets."""
    gateway = Gateway(access, bind)
    for secret in (gateway.token, *(await access.headers()).values()):
        records.hide(secret.removeprefix("Bearer "))
    return gateway


def _places(run: DriverRun, root: Path, kubeconfig: Path | None, node: str) -> Places:
    if run.sandbox and run.sandbox.private_directories:
        return private_places(run.sandbox, root, kubeconfig, node, run.profile.driver.name)
    places = Places(
        root, root / "plugins_registry", root / "plugins", root / "cdi", kubeconfig, node, run.profile.driver.name
    )
    places.make()
    return places


async def _running(run: DriverRun, label: Process, clock: Clock, records: Records, stack: AsyncExitStack) -> Subject:
    """A driver that runs already."""
    running = run.profile.driver.running
    assert running
    registry = running.registry_dir or (running.socket and running.socket.parent)
    assert registry
    api: ListWatch | None = None
    if run.profile.kubeconfig:
        try:
            client = await KubeClient.from_kubeconfig(run.profile.kubeconfig)
        except ValueError as error:
            raise ConfigurationError(str(error), "pass another --kubeconfig") from None
        stack.push_async_callback(client.close)
        api = client
    registry, (cdi_dir, *more) = registry.absolute(), running.cdi_dirs
    node = running.node_name or (await _this_node(api) if api else "")
    places = Places(
        *(registry.parent, registry, registry, cdi_dir, run.profile.kubeconfig, node),
        socket=running.socket,
        more_cdi_dirs=tuple(more),
    )
    return Subject(
        label,
        places,
        clock,
        records.of_current,
        record_exit=partial(records.of_process, label),
        api=api,
    )


async def _this_node(api: ListWatch) -> str:
    """The Node with the name of this host; empty if there is none, or if it cannot be read."""
    try:
        found = await api.get(NODES, gethostname().lower())
    except ApiError:
        return ""
    return str(found["metadata"]["name"])
