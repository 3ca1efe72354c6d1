"""The node of a scenario. Each scenario has its own, with a namespace and a history."""

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Any, Never

from drahealth.fakes.cluster.api import DEVICE_CLASSES, NAMESPACES, PODS, REPLICA_SETS, SLICES, ApiError
from drahealth.fakes.control.fake_options import DriverOptions, PluginOptions, only_health_api
from drahealth.proto import events
from drahealth.proto.events import StatusSeen
from drahealth.proto.health_apis import HEALTH_APIS, HealthApi
from drahealth.proto.values import DRA_GATE, MESSAGE_GATE, STATUS_GATE
from drahealth.suites.errors import HarnessError, reject_old_arguments
from drahealth.suites.judging import invariants
from drahealth.suites.judging.diagnosis import Diagnosis, diagnose, first_violation
from drahealth.suites.judging.ledger import KnownIssue
from drahealth.suites.judging.status_content import HOLDS, Sought, StepFailed, Violation, shows
from drahealth.suites.story import manifests
from drahealth.suites.story.claims import Claim, Claims, PodUses, Used, pod_manifest
from drahealth.suites.story.cleanup import Cleanup, HistoryChecks, RequirementChecks
from drahealth.suites.story.hardware import DevicePlugin, Driver, Gpu, PluginGpu
from drahealth.suites.story.history import STORY_LIMIT, History, ScenarioWatch, are_received, time_limit
from drahealth.suites.story.workload import Pod, ReplicaSet, replica_set_manifest
from drahealth.suites.targets.capabilities import Capability
from drahealth.suites.targets.target import Target, Window


class Disruptions:
    """Disruptions by a scenario, with the capabilities that it `needs`. It remembers what to undo at the end.

    All methods raise HarnessError for a capability that the scenario does not declare.
    """

    def __init__(self, target: Target, title: str, *, needs: Collection[Capability] = ()) -> None:
        self.target = target
        self.history = History()
        self.gates_on = True
        """The feature gate is on in the API server and in the kubelet."""
        self.has_default_gates = True
        """The gates DynamicResourceAllocation and ResourceHealthStatusMessage are on, too."""
        self.title = title
        self._needs = needs
        self._api_server_is_stopped = False
        self._kubelet_is_stopped = False

    def log(self, text: str) -> None:
        """Add a line to the history."""
        self.history.observe(events.Step(text))

    async def kubelet_restarts(self) -> None:
        """Kill the kubelet and start it again."""
        self._use(Capability.RESTART_KUBELET)
        self.log("the kubelet is killed and started again")
        self.history.observe(events.Stopped("kubelet"))
        await self.target.restart_kubelet()
        self._kubelet_is_stopped = False
        self.history.observe(events.Restarted("kubelet"))

    async def kubelet_stops(self, *, orderly: bool = False) -> None:
        """Kill the kubelet, or let it stop in an orderly way. Containers and drivers keep running.

        The cleanup starts it again if needed.
        """
        self._use(Capability.STOP_KUBELET)
        self.log("the kubelet stops" if orderly else "the kubelet is killed")
        self.history.observe(events.Stopped("kubelet"))
        self._kubelet_is_stopped = True
        await self.target.stop_kubelet(orderly=orderly)

    async def kubelet_starts(self) -> None:
        """Start a stopped kubelet with its old files, and wait until it serves the node."""
        if self._kubelet_is_stopped:
            self.log("the kubelet is started again")
            await self.target.start_kubelet()
            self._kubelet_is_stopped = False
            self.history.observe(events.Restarted("kubelet"))

    async def set_gates(
        self,
        *,
        on: bool | None = None,
        api_server: bool = True,
        kubelet: bool = True,
        dra: bool = True,
        messages: bool = True,
    ) -> None:
        """Set the feature gate and restart the API server and the kubelet. `on` sets both sides.

        `dra` is the gate DynamicResourceAllocation of the kubelet, `messages` its gate
        ResourceHealthStatusMessage.
        """
        self._use(Capability.SWITCH_GATES)
        if not dra:
            self._use(Capability.SWITCH_DRA)
            self.log(f"the feature gate {DRA_GATE} is off in the kubelet")
        if not messages:
            self._use(Capability.SWITCH_MESSAGES)
            self.log(f"the feature gate {MESSAGE_GATE} is off in the kubelet")
        api_server, kubelet = (api_server, kubelet) if on is None else (on, on)
        sides = {"API server": api_server, "kubelet": kubelet}
        self.log(f"the feature gate is {', '.join(f'{_on(is_on)} in the {side}' for side, is_on in sides.items())}")
        self.gates_on = api_server and kubelet
        self.has_default_gates = self.gates_on and dra and messages
        self.history.observe(events.Stopped("kubelet"))
        without_messages = events.GateSet(MESSAGE_GATE, False, True, False)
        if not messages:  # the kubelet may write statuses before the node is ready again
            self.history.observe(without_messages)
        await self.target.set_gates(api_server=api_server, kubelet=kubelet, dra=dra, messages=messages)
        self.history.observe(events.GateSet(STATUS_GATE, self.gates_on, api_server, kubelet))
        if not messages:
            self.history.observe(without_messages)

    async def api_server_stops(self) -> None:
        """Stop the API server. Watches end, and writes fail."""
        self._use(Capability.STOP_API_SERVER)
        self.log("the API server is stopped")
        self._api_server_is_stopped = True
        await self.target.stop_api_server()

    async def api_server_starts(self) -> None:
        """Start a stopped API server with the same store."""
        if not self._api_server_is_stopped:
            return
        await self.target.start_api_server()
        self._api_server_is_stopped = False
        self.history.observe(events.Restarted("kube-apiserver"))

    @property
    def is_exclusive(self) -> bool:
        """The scenario disrupts every pod on its node, so no other one may run there at the same time."""
        return any(capability.exclusive for capability in self._needs)

    def _use(self, capability: Capability) -> None:
        if capability not in self._needs:
            raise HarnessError(
                f"scenario {self.title!r} uses the capability {capability.value} but does not declare it",
                f'add needs=("{capability.value}",) to @scenario',
            )


def _on(is_on: bool) -> str:
    return "on" if is_on else "off"


_RESYNCS = 12
"""No story waits for more resyncs. Kubelets with the default settings need 90 s for each."""
RECEIPT_LIMIT = 30.0
"""Real seconds until the kubelet has received what drivers have sent."""


class Node(Disruptions):
    """The node that a scenario runs on. The objects it creates wait for events in the history, and check them."""

    def __init__(
        self,
        target: Target,
        title: str,
        requirements: Sequence[str],
        run: Callable[[Awaitable[Any]], Any],
        *,
        needs: Collection[Capability] = (),
        health_api: HealthApi | None = None,
        fixed: Collection[str] = (),
        api_server: str = "",
        **old: Never,
    ) -> None:
        """`fixed` are ids of known issues that its kubelet does not have. `api_server` is the profile of an API server
        of another release. Raises TypeError for an old argument.
        """
        reject_old_arguments("Node", old, {"alone": "needs"})
        super().__init__(target, title, needs=needs)
        self._health_api = health_api
        self.profile = target.profile
        self.namespace = f"{target.placement.prefix}{secrets.token_hex(4)}"
        # This release shows only claims from templates if it does not show directly named claims.
        self.claims = Claims(target.api, self.namespace, templates=target.profile.claims_shown == "listed")
        self.time_limit = max(STORY_LIMIT, _RESYNCS * target.windows.get("resync", 0))
        """The time limit of the scenario, in seconds."""
        self.unjudged: set[str] = set()
        """Invariants that the scenario itself breaks, so that they judge no kubelet here."""
        self.notes: list[str] = []
        """Remarks on a story that passed, one line each."""
        self.status_changes: list[str] = []
        """The health that its pods showed, one line for each changed device."""
        self.timeline_began = 0.0
        """When its timeline began, on the clock of the history."""
        self.seconds = 0.0
        """The duration of the scenario."""
        self._run = run
        self._started: asyncio.Task[None] | None = None
        self._judge = RequirementChecks(target.profile.name, title, requirements, self.log, fixed, api_server)
        self._watch = ScenarioWatch(target.api, self.namespace, self.history)
        self._made = Cleanup(target, self.namespace, self._watch, self.history)
        self._evidence = HistoryChecks(self.history, self._watch, target.profile, self._made)
        self._names = 0

    # -- for the session

    @property
    def deviations(self) -> list[KnownIssue]:
        """The known issues that happened."""
        return self._judge.deviations

    @property
    def known_violations(self) -> list[Violation]:
        """What failed in each of `deviations`, in the same order."""
        return self._judge.violations

    @property
    def stale(self) -> list[KnownIssue]:
        """Known issues with `happens = "always"` that did not happen."""
        return self._judge.stale

    def play(self, story: Callable[[], Awaitable[None]]) -> None:
        """Run the scenario, then check the invariants on its history. Raises Violation, HarnessError.

        A scenario that has been started is only awaited.
        """
        self._run(self._started or self._play(story()))

    def start(self, story: Callable[[], Awaitable[None]]) -> None:
        """Start the scenario before `play`, beside another one. Needs a running event loop."""
        self._started = asyncio.create_task(self._play(story()), name=self.title)

    async def begin(self) -> None:
        """Create the namespace on the target. After ApiError or HarnessError, the target is clean."""
        try:
            await self.target.enter(alone=self.is_exclusive, observe=self.history.observe)
            labels = {**self.target.placement.labels, **_ADMITS}
            await self.target.api.create(NAMESPACES, {"metadata": {"name": self.namespace, "labels": labels}})
            await self.target.prepare_namespace(self.namespace)
            self._watch.start()
        except BaseException:
            with suppress(ApiError):
                await self._end()
            raise

    async def finish(self) -> None:
        """Restore the target. Raises HarnessError if the cleanup fails."""
        if self._started:
            self._started.cancel()  # no effect if it has ended
            await asyncio.wait([self._started])
        async with time_limit(f"the cleanup of {self.title!r} did not end"):
            await self._end()

    async def _end(self) -> None:
        async with AsyncExitStack() as stack:
            self._made.add_to(stack)
            if not self.has_default_gates:
                stack.push_async_callback(self.set_gates, on=True)
            stack.push_async_callback(self._made.delete_pods)
            self._made.add_restarts_to(stack)
            stack.push_async_callback(self.kubelet_starts)
            stack.push_async_callback(self.api_server_starts)

    # -- the story

    def judging(self, requirement: str, assertion: str) -> AbstractContextManager[None]:
        """A failure in this block counts for this requirement. After a known issue the scenario continues."""
        return self._judge.judging(requirement, assertion)

    async def driver(self, devices: int | Sequence[str] = 1, **options: Any) -> Driver:
        """Start a fake driver and wait for its registration. Arguments as for `new_driver`."""
        driver = await self.new_driver(devices, **options)
        await driver.starts()
        return driver

    async def new_driver(self, devices: int | Sequence[str] = 1, **options: Any) -> Driver:
        """Create a fake driver; do not start it. All devices are Healthy.

        `devices` is a number of GPUs, or a list of device paths. `options` are fields of DriverOptions.
        The driver uses the health API of the run, unless the options set one.
        """
        self._names += 1
        number = self._names  # another task may create a driver in the meantime
        name = f"gpu-{number}.{self.namespace[-8:]}.example.com"
        await self.target.api.create(DEVICE_CLASSES, manifests.device_class(name, self.target.placement.labels))
        return await self.add_driver(
            DriverOptions(
                name=name,
                node=self.target.node_name,
                devices=_gpus(devices) if isinstance(devices, int) else tuple(devices),
                registry_dir=str(self.target.registry_dir),
                data_dir=str(self.target.plugins_dir / f"{self.namespace[-8:]}-{number}"),
                **self._with_health_api(**options),
            )
        )

    @property
    def served_health_apis(self) -> tuple[str, ...]:
        """The names of the health APIs that the drivers of this run serve."""
        return (self._health_api.name,) if self._health_api else tuple(HEALTH_APIS)

    async def add_driver(self, options: DriverOptions) -> Driver:
        """Create a driver with exactly these options. It is not started."""
        control = await self.target.start_driver(options, self.history.add)
        driver = Driver(self, options, control)
        self._made.drivers.append(driver)
        return driver

    async def another_node_publishes(self, driver: Driver, device: str) -> None:
        """Publish a device of this name for the driver on another node, which is only in the API."""
        other = manifests.slice_of_another_node(driver.name, device, self.target.placement.labels)
        self._made.slices.append(other["metadata"]["name"])
        await self.target.api.create(SLICES, other)

    async def device_plugin(self, devices: int | Sequence[str] = 1, **options: Any) -> DevicePlugin:
        """Start a fake device plugin and wait for its registration. All devices are Healthy.

        `devices` is a number of GPUs, or a list of device IDs. `options` are fields of PluginOptions.
        """
        self._names += 1
        folder = self.target.plugins_dir / f"{self.namespace[-8:]}-{self._names}"
        known: dict[str, Any] = {
            "resource": f"gpu-{self._names}.{self.namespace[-8:]}.example.com/gpu",
            "devices": _gpus(devices) if isinstance(devices, int) else tuple(devices),
            "plugins_dir": str(self.target.device_plugins_dir),
            "registry_dir": str(self.target.registry_dir),
            "data_dir": str(folder),
        }
        made = PluginOptions(**{**known, **options})
        plugin = DevicePlugin(self, made, await self.target.start_device_plugin(made, self.history.add))
        self._made.plugins.append(plugin)
        await plugin.starts()
        return plugin

    async def pod_with_a_plugin_gpu(self, **options: Any) -> tuple[DevicePlugin, Pod, PluginGpu]:
        """A device plugin with one GPU, and a running pod that uses it. `options` are for the plugin."""
        plugin = await self.device_plugin(**options)
        pod = await self.running_pod(plugin.request())
        return plugin, pod, plugin.gpus[0]

    async def claim(self, driver: Driver, *, template: bool = False, renamed: bool = False, **requests: int) -> Claim:
        """Create a claim for devices of the driver: a number of devices per request, by default `gpu=1`.

        `template` creates it from a template. `renamed` gives it another name in the pod.
        """
        counts = requests or {"gpu": 1}
        self._names += 1
        name = f"claim-{self._names}"
        object_name = f"object-{self._names}" if renamed else ""
        of_driver = {request: (driver, count) for request, count in counts.items()}
        return await self.claims.make(name, of_driver, template=template, object_name=object_name)

    async def admin_claim(self, driver: Driver) -> Claim:
        """Create a claim with admin access to one device of the driver, which another claim can hold, too."""
        self._names += 1
        return await self.claims.make(f"claim-{self._names}", {"gpu": (driver, 1)}, admin=True)

    async def joint_claim(self, **requests: Driver) -> Claim:
        """Create a claim with one device for each request, of the driver of this request."""
        self._names += 1
        return await self.claims.make(f"claim-{self._names}", {name: (of, 1) for name, of in requests.items()})

    async def claim_with_alternatives(self, driver: Driver, request: str, *alternatives: str) -> Claim:
        """Create a claim for one device of the driver, with a request that has these subrequests."""
        self._names += 1
        name = f"claim-{self._names}"
        return await self.claims.make(name, {request: (driver, 1)}, alternatives={request: alternatives})

    async def allocated(self, claim: Claim, request: str | None = None) -> list[Gpu]:
        """The devices that the scheduler allocated to the claim, or to one request of it."""
        found = await self.claims.object(claim)
        results = found.get("status", {}).get("allocation", {}).get("devices", {}).get("results", [])
        drivers = {driver.name: driver for driver in claim.drivers}
        return [Gpu(drivers[one["driver"]], one["device"]) for one in results if request in (None, one["request"])]

    async def pod(
        self,
        *uses: Used | Claim,
        containers: Mapping[str, Sequence[Used | Claim]] | None = None,
        init: Mapping[str, Sequence[Used | Claim]] | None = None,
        sidecars: Mapping[str, Sequence[Used | Claim]] | None = None,
        unused: Sequence[Claim] = (),
        command: Sequence[str] = (),
        restart: str = "Always",
        restart_codes: Sequence[int] = (),
        limits: Mapping[str, str] = MappingProxyType({}),
        bound: bool = False,
        **fields: Any,
    ) -> Pod:
        """Create a pod; do not wait for it. Its container `main` uses `uses`, unless `containers` replaces it.

        Containers that exit with one of the `restart_codes` are restarted by their own rule, and after no other exit.
        Sidecars start before the init containers, which run to completion. No container uses the `unused` claims. Each
        container has the `limits`, such as of cpu and memory. With `bound` the manifest names the node, so that no
        scheduler reserves the claims for the pod. `fields` are further fields of the Pod's spec, such as `hostUsers`.
        """
        self._names += 1
        users = PodUses.of(containers or {"main": uses}, init or {}, sidecars or {}, unused)
        name = f"pod-{self._names}"
        sources = {claim.name: await self.claims.source(claim) for claim in users.claims}
        options: dict[str, Any] = {"command": command, "restart": restart, "restart_codes": restart_codes}
        manifest = pod_manifest(
            self.namespace, name, users, sources, workload=self.target.workload, limits=limits, **options
        )
        placed = {**self.target.placement.pod, **({"nodeName": self.target.node_name} if bound else {})}
        manifest["spec"] |= {**placed, **fields}
        created = await self.target.api.create(PODS, manifest)
        return Pod(self, name, created["metadata"]["uid"], users)

    async def replica_set(self, *uses: Used) -> ReplicaSet:
        """Create a ReplicaSet with one replica. Its container uses claims from templates, and device plugins."""
        self._names += 1
        users, name = PodUses({"main": uses}), f"set-{self._names}"
        source = {claim.name: {"resourceClaimTemplateName": claim.name} for claim in users.claims}
        pod = pod_manifest(
            self.namespace, name, users, source, workload=self.target.workload, command=(), restart="Always"
        )
        pod["spec"] |= self.target.placement.pod
        await self.target.api.create(REPLICA_SETS, replica_set_manifest(name, pod))
        return ReplicaSet(self, name, users)

    async def running_pod(self, *uses: Used | Claim, **options: Any) -> Pod:
        """Create a pod and wait until it runs. Arguments as for `pod`."""
        pod = await self.pod(*uses, **options)
        await pod.is_running()
        return pod

    async def pod_with_a_gpu(self, **options: Any) -> tuple[Driver, Pod, Gpu]:
        """A driver with one GPU, and a running pod that uses it. `options` are for the driver."""
        driver = await self.driver(**options)
        pod = await self.running_pod((await self.claim(driver))["gpu"])
        return driver, pod, driver.gpus[0]

    async def advance_time(self, seconds: float) -> None:
        """Let `seconds` pass: in simulated time where the target can, in real time otherwise.

        What drivers have sent is received before: a device must not expire because this machine is slow.
        """
        await self.history.until(lambda: are_received(self.history.records), RECEIPT_LIMIT)
        if jumped := await self.target.advance_time(seconds):
            self.history.observe(events.TimePassed(jumped))
        else:
            self.log(f"{seconds:g} s have passed")

    async def kubelet_catches_up(self) -> None:
        """Wait until the kubelet has run a pod on a new driver. All earlier work has begun by then."""
        await self.pod_with_a_gpu()

    async def events_arrive(self, within: Window = "start") -> None:
        """Wait until all earlier events are visible. The start event of a new pod is the fence."""
        pod = await self.pod((await self.claim(await self.driver()))["gpu"])
        await pod.is_running(within)
        started = f"pod {pod.name} has the event Started"
        await self.until(lambda: any(e.reason == "Started" for e in pod.events()), "start", started, "no such event")

    # -- for drivers, plugins and pods

    def latest(self, pod_uid: str) -> StatusSeen | None:
        return self._watch.statuses.get(pod_uid)

    async def until(
        self, true: Callable[[], bool], window: Window, expected: str, seen: object, sought: Sought | None = None
    ) -> None:
        """Wait for the condition. Raises Violation with the last seen state at the end of the window.

        A status that comes later is no success. The wait for it lets the diagnosis say how late it was.
        """
        if true():
            return
        began, limit = time.monotonic(), self.target.windows[window]
        if not await self._becomes_true(true, window):
            self.target.check()
            seen = str(seen)
            if sought:
                sought = replace(sought, since=began, limit=None if window == "resync" else limit)
                await self._wait_for_a_late_status(true, window, sought)
            self.check(False, f"{expected} within {limit:g} s ({window})", seen, sought)

    def check(self, true: bool, expected: str, seen: object, sought: Sought | None = None) -> None:
        """Raises Violation if the condition is false now."""
        try:
            self._judge.check(true, expected, seen, sought)
        except Violation as violation:
            violation.at = time.monotonic()
            raise

    def diagnosis(self, failure: Violation | StepFailed) -> Diagnosis:
        """Why a check of the story failed, from its history."""
        records = [record for record in self.history.records if record.at <= failure.at]
        setting = self._evidence.setting()
        if isinstance(failure, Violation) and failure.assertion == HOLDS:
            return first_violation(records, failure.requirement, setting)
        return diagnose(records, failure.sought, setting)

    def requires_messages_of(self, driver: Driver) -> bool:
        """Whether the pod status must show the messages of this driver.

        It must not if the kubelet or the health API has no messages. STATUS-02 requires them in any case.
        """
        carried = driver.health_api is None or "message" in driver.health_api.carries
        return (self.profile.messages and carried) or self._judge.requirement == "STATUS-02"

    # -- inside

    def _with_health_api(self, **options: Any) -> dict[str, Any]:
        """The driver options, with the health API of the run if they name none."""
        if self._health_api is None or "health_apis" in options:
            return options
        return {**only_health_api(self._health_api), **options}

    async def _play(self, story: Awaitable[None]) -> None:
        began = time.monotonic()
        try:
            async with time_limit(f"{self.title!r} did not end", self.time_limit):
                await story
                await self._wait_for_convergence()
                await self._wait_for_stream_end()
                await self.target.observe_writes(self.namespace, self.history.observe)
        finally:
            self.seconds = time.monotonic() - began
        found = self._evidence.violations()
        for requirement, violations in ((name, found[name]) for name in found if name not in self.unjudged):
            with self.judging(requirement, HOLDS):
                self.check(not violations, "the invariant holds in the whole history", "; ".join(violations))

    async def _becomes_true(self, true: Callable[[], bool], window: Window) -> bool:
        opened = await self.target.open_window(window)
        if opened.jumped:
            self.history.observe(events.TimePassed(opened.jumped))
        return await self.history.until(true, opened.wait, opened.longest)

    async def _wait_for_a_late_status(self, true: Callable[[], bool], window: Window, sought: Sought) -> None:
        """Wait for the next periodic status, unless a known issue explains the failure, or an earlier step failed."""
        if window == "resync" or self._judge.is_known:
            return
        if any(status.uid == sought.pod and shows(status, sought) for status in self.history.of(StatusSeen)):
            return  # it came in time, and has gone
        if diagnose(self.history.records, sought, self._evidence.setting()).cause in ("no status", "other content"):
            await self._becomes_true(true, "resync")

    async def _wait_for_convergence(self) -> None:
        """Wait until every running pod shows the last report. The drivers send no further reports."""
        not_converged = partial(self._evidence.not_converged, self.gates_on)
        with self.judging("STATUS-10", "at the end, each running pod shows the last report"):
            windows: tuple[Window, ...] = ("push", "resync")
            for window in windows:
                if not not_converged() or await self._becomes_true(lambda: not not_converged(), window):
                    return
            self.check(False, "every running pod shows the latest health", "; ".join(not_converged()))

    async def _wait_for_stream_end(self) -> None:
        """Wait for the end of a replaced stream, because a driver may notice it late."""
        await self.history.until(lambda: not self._evidence.has_two_streams(), 2 * invariants.OVERLAP)
        self.log("the scenario ends")


_ADMITS = {"resource.kubernetes.io/admin-access": "true", "pod-security.kubernetes.io/enforce": "baseline"}
"""The labels of a namespace whose claims can have admin access, and which a cluster with a stricter default accepts."""


def _gpus(count: int) -> tuple[str, ...]:
    return tuple(f"gpu-{number}" for number in range(count))


# Static pods: pods from a file of the kubelet. The API server has a mirror pod for each.

_NAME = "static"


@asynccontextmanager
async def static_pod(node: Node, *uses: Used) -> AsyncIterator[Pod]:
    """The mirror pod of a static pod whose container `main` uses `uses`. The scenario needs `static-pods`.

    At the end its manifest is removed. If the block succeeded, the mirror pod is gone then. Otherwise the cleanup of
    the node deletes it. A namespace can have one static pod.
    """
    users, name = PodUses.of({"main": uses}, {}, {}, ()), f"{_NAME}-{node.target.node_name}"
    manifest = pod_manifest(
        node.namespace, _NAME, users, {}, workload=node.target.workload, command=(), restart="Always"
    )
    node.log(f"the kubelet has the manifest of the static pod {_NAME}")
    await node.target.add_static_pod(manifest)
    try:
        pod = Pod(node, name, await _mirrored(node, name), users)
        yield pod
    finally:
        await node.target.remove_static_pod(manifest)
    await pod.is_gone()


async def _mirrored(node: Node, name: str) -> str:
    """The uid of the mirror pod with this name, as soon as there is one."""

    def uids() -> list[str]:
        return [seen.uid for seen in node.history.of(StatusSeen) if seen.pod == name]

    await node.until(lambda: bool(uids()), "start", f"the API server has the mirror pod {name}", "no such pod")
    return uids()[0]
