"""The node of a scenario: where its story is told. One for each scenario, with a namespace and a history of its own."""

import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager, AsyncExitStack, suppress
from functools import partial
from typing import Any

from drahealth.fakes.cluster.api import DEVICE_CLASSES, NAMESPACES, PODS, REPLICA_SETS, ApiError
from drahealth.fakes.control.device_plugin import PluginOptions
from drahealth.fakes.control.driver import DriverOptions
from drahealth.proto import events
from drahealth.proto.events import StatusSeen
from drahealth.proto.health_apis import HealthApi
from drahealth.suites.judging import invariants
from drahealth.suites.judging.ledger import KnownIssue
from drahealth.suites.story.claims import Claim, Claims, Use
from drahealth.suites.story.clear_up import ClearUp
from drahealth.suites.story.device_plugin import Ask, DevicePlugin, PluginGpu
from drahealth.suites.story.disruptions import Disruptions
from drahealth.suites.story.evidence import Evidence
from drahealth.suites.story.hardware import Driver, Gpu
from drahealth.suites.story.judge import Judge
from drahealth.suites.story.patience import PATIENCE, patient
from drahealth.suites.story.pod_manifest import Users, pod_manifest
from drahealth.suites.story.pod_watch import PodWatch
from drahealth.suites.story.replica_set import ReplicaSet, replica_set_manifest
from drahealth.suites.story.workload import Pod
from drahealth.suites.targets.labels import BELONGS
from drahealth.suites.targets.target import Target, Window


class Node(Disruptions):
    """What a scenario tells its story with. Handles that it gives wait and judge by the history."""

    def __init__(
        self,
        target: Target,
        title: str,
        judges: Sequence[str],
        run: Callable[[Awaitable[Any]], Any],
        *,
        alone: bool = False,
        health_api: HealthApi | None = None,
    ) -> None:
        super().__init__(target, title, alone=alone)
        self._health_api = health_api
        self.profile = target.profile
        self.namespace = f"scenario-{secrets.token_hex(4)}"
        # Where claims that are named directly are not shown, a template's are.
        self.claims = Claims(target.api, self.namespace, templates=target.profile.claims_shown == "listed")
        self.patience = PATIENCE
        """Seconds that the story may take."""
        self.notes: list[str] = []
        """What somebody should know of it though it has passed, a line each."""
        self.showed: list[str] = []
        """What its pods showed in its course, where that is worth a line."""
        self._run = run
        self._judge = Judge(target.profile.name, title, judges, self.tell)
        self._watch = PodWatch(target.api, self.namespace, self.history)
        self._made = ClearUp(target, self.namespace, self._watch, self.history)
        self._evidence = Evidence(self.history, self._watch, target.profile, self._made)
        self._names = 0

    # -- for the one who runs it

    @property
    def deviations(self) -> list[KnownIssue]:
        """Known issues that happened."""
        return self._judge.deviations

    @property
    def stale(self) -> list[KnownIssue]:
        """Known issues that always happen and did not."""
        return self._judge.stale

    def play(self, story: Awaitable[None]) -> None:
        """Plays the story to its end and judges the history by the invariants. Raises Violation, HarnessError."""
        self._run(self._play(story))

    async def begin(self) -> None:
        """A place on the target. Raises ApiError, HarnessError; then it is left again."""
        try:
            await self.target.enter(alone=self._alone)
            await self.target.api.create(NAMESPACES, {"metadata": {"name": self.namespace, "labels": BELONGS}})
            await self.target.prepare_namespace(self.namespace)
            self._watch.start()
        except BaseException:
            with suppress(ApiError):
                await self._end()
            raise

    async def finish(self) -> None:
        """Leaves the target as it was. What cannot be cleaned up is the harness' fault."""
        async with patient(f"{self._title!r} could not be cleared up"):
            await self._end()

    async def _end(self) -> None:
        async with AsyncExitStack() as stack:
            self._made.add_to(stack)
            if not self.gates_on:
                stack.push_async_callback(self.gates, on=True)
            stack.push_async_callback(self._made.end_pods)
            stack.push_async_callback(self._made.revive_drivers)
            stack.push_async_callback(self.kubelet_runs)
            stack.push_async_callback(self.api_server_returns)

    # -- the story

    def judging(self, requirement: str, assertion: str) -> AbstractContextManager[None]:
        """What fails in here fails for this requirement; where that is a known issue the story goes on."""
        return self._judge.judging(requirement, assertion)

    async def driver(self, devices: int | Sequence[str] = 1, **options: Any) -> Driver:
        """A fake driver with so many GPUs, or devices of these paths, all Healthy, started and registered.

        Options are DriverOptions' fields.

        Its health API is that of the run, unless the options say something else.
        """
        self._names += 1
        number = self._names  # another driver may be made meanwhile
        name = f"gpu-{number}.{self.namespace[-8:]}.example.com"
        await self.target.api.create(
            DEVICE_CLASSES,
            {
                "metadata": {"name": name, "labels": BELONGS},
                "spec": {"selectors": [{"cel": {"expression": f'device.driver == "{name}"'}}]},
            },
        )
        driver = await self.add_driver(
            DriverOptions(
                name=name,
                node=self.target.node_name,
                devices=_gpus(devices) if isinstance(devices, int) else tuple(devices),
                registry_dir=str(self.target.registry_dir),
                data_dir=str(self.target.plugins_dir / f"{self.namespace[-8:]}-{number}"),
                **self._spoken(**options),
            )
        )
        await driver.starts()
        return driver

    async def add_driver(self, options: DriverOptions) -> Driver:
        """A driver with just these options, not started."""
        control = await self.target.start_driver(options, self.history.add)
        driver = Driver(self, options, control)
        self._made.drivers.append(driver)
        return driver

    async def device_plugin(self, devices: int | Sequence[str] = 1, **options: Any) -> DevicePlugin:
        """A fake device plugin with so many GPUs, or devices of these ids, all Healthy, registered.

        Options are PluginOptions' fields.
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
        """A device plugin with one GPU and a running pod that has it; options are the plugin's."""
        plugin = await self.device_plugin(**options)
        pod = await self.running_pod(plugin.asks())
        return plugin, pod, plugin.gpus[0]

    async def claim(self, driver: Driver, *, template: bool = False, renamed: bool = False, **requests: int) -> Claim:
        """A claim on the driver's devices: so many for each request; one for a request `gpu` if none is named.

        Made from a template, or called otherwise by its pods than its object is, if that is asked for.
        """
        counts = requests or {"gpu": 1}
        self._names += 1
        name = f"claim-{self._names}"
        object_name = f"object-{self._names}" if renamed else ""
        return await self.claims.make(name, driver, counts, template=template, object_name=object_name)

    async def allocated(self, claim: Claim) -> list[Gpu]:
        """The devices that the scheduler gave to the claim."""
        found = await self.claims.object(claim)
        results = found.get("status", {}).get("allocation", {}).get("devices", {}).get("results", [])
        return [Gpu(claim.driver, result["device"]) for result in results]

    async def pod(
        self,
        *uses: Use | Claim | Ask,
        containers: Mapping[str, Sequence[Use | Claim | Ask]] | None = None,
        init: Mapping[str, Sequence[Use | Claim | Ask]] | None = None,
        sidecars: Mapping[str, Sequence[Use | Claim | Ask]] | None = None,
        unused: Sequence[Claim] = (),
        command: Sequence[str] = (),
        restart: str = "Always",
    ) -> Pod:
        """A pod whose one container, or each of `containers`, uses these claims, and devices of device plugins.

        Sidecars come before the init containers that run to their end. No container uses `unused`. It is not waited
        for.
        """
        self._names += 1
        users = Users(
            {n: [_use(u) for u in used] for n, used in (containers or {"main": uses}).items()},
            {n: [_use(u) for u in used] for n, used in (init or {}).items()},
            {n: [_use(u) for u in used] for n, used in (sidecars or {}).items()},
            unused,
        )
        name, image = f"pod-{self._names}", self.target.workload_image
        sources = {claim.name: await self.claims.source(claim) for claim in users.claims}
        manifest = pod_manifest(self.namespace, name, users, sources, image=image, command=command, restart=restart)
        created = await self.target.api.create(PODS, manifest)
        return Pod(self, name, created["metadata"]["uid"], users)

    async def replica_set(self, *uses: Use | Ask) -> ReplicaSet:
        """A ReplicaSet that keeps one pod, whose one container uses this of claims that are made from templates, and
        devices of device plugins."""
        self._names += 1
        users, name = Users({"main": uses}), f"set-{self._names}"
        source = {claim.name: {"resourceClaimTemplateName": claim.name} for claim in users.claims}
        image = self.target.workload_image
        pod = pod_manifest(self.namespace, name, users, source, image=image, command=(), restart="Always")
        await self.target.api.create(REPLICA_SETS, replica_set_manifest(name, pod))
        return ReplicaSet(self, name, users)

    async def running_pod(self, *uses: Use | Claim | Ask, **options: Any) -> Pod:
        """The same, running."""
        pod = await self.pod(*uses, **options)
        await pod.is_running()
        return pod

    async def pod_with_a_gpu(self, **options: Any) -> tuple[Driver, Pod, Gpu]:
        """A driver with one GPU and a running pod that uses it; options are the driver's."""
        driver = await self.driver(**options)
        pod = await self.running_pod((await self.claim(driver))["gpu"])
        return driver, pod, driver.gpus[0]

    async def passes(self, seconds: float) -> None:
        """So much time passes."""
        if jumped := await self.target.advance_time(seconds):
            self.history.observe(events.TimePassed(jumped))
        else:
            self.tell(f"{seconds:g} s have passed")

    async def catches_up(self) -> None:
        """Returns when the kubelet has begun what it had to do by now: it ran a pod on a driver that came later."""
        await self.pod_with_a_gpu()

    async def events_arrive(self) -> None:
        """Returns when the events of all that happened so far can be seen: that of a later pod's start is the fence."""
        _, pod, _ = await self.pod_with_a_gpu()
        started = f"an event tells that pod {pod.name} has started"
        await self.until(lambda: any(e.reason == "Started" for e in pod.events()), "start", started, "no such event")

    # -- for the handles

    def latest(self, pod_uid: str) -> StatusSeen | None:
        return self._watch.statuses.get(pod_uid)

    async def until(self, true: Callable[[], bool], window: Window, expected: str, seen: object) -> None:
        """Waits for it through the window. Raises Violation, with what was seen last, if it does not come true."""
        if true():
            return
        if not await self._comes_true(true, window):
            self.target.check()
            limit = f"within {self.target.windows[window]:g} s ({window})"
            self.check(False, f"{expected} {limit}", seen)

    def check(self, true: bool, expected: str, seen: object) -> None:
        """Raises Violation if it is not so now."""
        self._judge.check(true, expected, seen)

    def insists_on_messages_of(self, driver: Driver) -> bool:
        """A message that it reported has to be shown. Where the kubelet or the health API knows none it has not, but
        where just that is judged: there, who knows none fails."""
        carried = driver.health_api is None or "message" in driver.health_api.carries
        return (self.profile.messages and carried) or self._judge.requirement == "STATUS-02"

    # -- inside

    def _spoken(self, **options: Any) -> dict[str, Any]:
        """A driver's options, with the one health API of the run in them where they name none."""
        if self._health_api is None or "health_apis" in options:
            return options
        return {
            "health_apis": (self._health_api.advertised,),
            "served_health_apis": (self._health_api.name,),
            **options,
        }

    async def _play(self, story: Awaitable[None]) -> None:
        async with patient(f"{self._title!r} did not end", self.patience):
            await story
            await self._converges()
            await self._settles()
        for requirement, violations in self._evidence.violations().items():
            with self.judging(requirement, "holds throughout"):
                self.check(not violations, "it holds throughout", "; ".join(violations))

    async def _comes_true(self, true: Callable[[], bool], window: Window) -> bool:
        opened = await self.target.open_window(window)
        if opened.jumped:
            self.history.observe(events.TimePassed(opened.jumped))
        return await self.history.until(true, opened.wait)

    async def _converges(self) -> None:
        """Nothing is reported any more: every running pod comes to show the latest."""
        not_converged = partial(self._evidence.not_converged, self.gates_on)
        with self.judging("STATUS-10", "the final state is the latest"):
            windows: tuple[Window, ...] = ("push", "resync")
            for window in windows:
                if not not_converged() or await self._comes_true(lambda: not not_converged(), window):
                    return
            self.check(False, "every running pod shows the latest health", "; ".join(not_converged()))

    async def _settles(self) -> None:
        """A driver may notice late that a stream has ended; two that stay open are two."""
        await self.history.until(lambda: not self._evidence.has_two_streams(), 2 * invariants.OVERLAP)
        self.tell("the story ends")


def _gpus(count: int) -> tuple[str, ...]:
    return tuple(f"gpu-{number}" for number in range(count))


def _use(used: Use | Claim | Ask) -> Use | Ask:
    return Use(used) if isinstance(used, Claim) else used
