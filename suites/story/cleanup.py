"""The end of a story: its objects are deleted, its history and its requirements are judged."""

import asyncio
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, contextmanager, suppress

from drahealth.fakes.cluster.api import DEVICE_CLASSES, NAMESPACES, PODS, REPLICA_SETS, SLICES, ApiError
from drahealth.manager.profile import Profile
from drahealth.suites.errors import HarnessError
from drahealth.suites.judging import invariants
from drahealth.suites.judging.diagnosis import DEVICE_PLUGIN, Setting
from drahealth.suites.judging.histories import devices_in, is_of_kubelet, one_side
from drahealth.suites.judging.ledger import KnownIssue, known_issues
from drahealth.suites.judging.status_content import STEP_FAILED, Device, DevicesByName, Sought, Violation, by_name
from drahealth.suites.story.hardware import DevicePlugin, Driver
from drahealth.suites.story.history import History, ScenarioWatch
from drahealth.suites.targets.target import Target

# Cleanup after a story: delete all its objects in reverse order, even if a deletion fails.


class Cleanup:
    """Cleanup of a namespace, and of the drivers and plugins that the story adds to it."""

    def __init__(self, target: Target, namespace: str, watch: ScenarioWatch, history: History) -> None:
        self.drivers: list[Driver] = []
        self.plugins: list[DevicePlugin] = []
        self.slices: list[str] = []
        """The names of the ResourceSlices that no driver of the node publishes."""
        self._target = target
        self._namespace = namespace
        self._watch = watch
        self._history = history

    def add_to(self, stack: AsyncExitStack) -> None:
        """Push the cleanup onto the stack. Callbacks that are pushed later run first."""
        api = self._target.api
        stack.push_async_callback(self._target.leave)
        stack.push_async_callback(self._watch.stop)
        stack.push_async_callback(api.delete, NAMESPACES, self._namespace)
        for name in {driver.name for driver in self.drivers}:
            stack.push_async_callback(api.delete, DEVICE_CLASSES, name)
        for name in self.slices:
            stack.push_async_callback(api.delete, SLICES, name)
        made: list[Driver | DevicePlugin] = [*self.drivers, *self.plugins]
        for control in (one.control for one in made):
            stack.push_async_callback(self._target.drop_driver, control)
            stack.push_async_callback(control.retire)

    def add_restarts_to(self, stack: AsyncExitStack) -> None:
        """Push the restart of stopped drivers. Before it, all drivers open their endpoints."""
        stack.push_async_callback(self.restart_drivers)
        for driver in self.drivers:
            stack.push_async_callback(driver.control.open_endpoint)

    async def delete_pods(self) -> None:
        """Delete all pods and wait. Their drivers must run. Raises HarnessError if a pod remains.

        The second attempt uses grace period 0. Without it, a pod remains if the API server rejects its final
        status (B-29, B-32).
        """
        for made in await self._target.api.list(REPLICA_SETS, self._namespace):  # they would replace their pods
            await self._target.api.delete(REPLICA_SETS, made["metadata"]["name"], self._namespace)
        for grace in (None, 0):
            for pod in await self._target.api.list(PODS, self._namespace):
                with suppress(ApiError):
                    await self._target.api.delete(PODS, pod["metadata"]["name"], self._namespace, grace)
            for _ in range(round(self._target.windows["start"])):
                if await self._history.until(lambda: not self._watch.statuses, 1.0):
                    return
                self._target.check()  # pods are not deleted without their driver
        raise HarnessError(f"pods in {self._namespace} were not deleted in time", await self._target.log_tail())

    async def restart_drivers(self) -> None:
        """Start drivers that the story left stopped. Pods end only after a driver has unprepared their claims.

        A driver that the kubelet rejected has no claims to unprepare.
        """
        for name in {driver.name for driver in self.drivers}:
            instances = [driver.control for driver in self.drivers if driver.name == name]
            states = [await control.state() for control in instances]
            if not any(state.running and (state.registered or state.registration_error) for state in states):
                await instances[-1].stop()
                await instances[-1].start()
                with suppress(TimeoutError):
                    await asyncio.wait_for(instances[-1].wait_registered(), self._target.windows["start"])


# Checks of a story's history and of its pods' last statuses against the invariants.


class HistoryChecks:
    """Checks of the history so far. Each call evaluates it again."""

    def __init__(self, history: History, watch: ScenarioWatch, profile: Profile, made: Cleanup) -> None:
        self._history = history
        self._watch = watch
        self._profile = profile
        self._made = made

    def violations(self) -> Mapping[str, Sequence[str]]:
        """The violations of each invariant, by requirement."""
        return invariants.violations(self._history.as_read(self._profile), self._devices())

    def not_converged(self, gates_on: bool) -> list[str]:
        """The devices of running pods whose status is not the last report."""
        statuses = self._watch.statuses.values()
        return invariants.not_converged(self._history.as_read(self._profile), statuses, self._devices(), gates_on)

    def has_two_streams(self) -> bool:
        """Whether two health streams of one driver are open."""
        return invariants.has_two_streams(self._history.as_read(self._profile))

    def setting(self) -> Setting:
        """What a diagnosis needs to know about the story."""
        drivers = {one.name: one.health_api.name if one.health_api else "" for one in self._made.drivers}
        plugins = dict.fromkeys((one.resource for one in self._made.plugins), DEVICE_PLUGIN)
        return Setting(self._profile, self._devices(), {**drivers, **plugins})

    def _devices(self) -> DevicesByName:
        """The story's devices by their names in a pod status of this profile."""
        kubelet_side = (r for r in one_side(self._history.records) if is_of_kubelet(r.what))
        return devices_in(kubelet_side) | by_name(self._made_devices())

    def _made_devices(self) -> Iterator[tuple[str, Device]]:
        """The devices of the story's drivers and device plugins. Devices with the same CDI id have one name."""
        for plugin in self._made.plugins:
            for device in plugin.gpus:
                yield invariants.name_in(plugin.resource, device.name), (plugin.resource, "", device.name)
        for driver in self._made.drivers:
            for gpu in driver.gpus:
                for name in (gpu.resource_id(self._profile), str(gpu.id)):
                    yield name, (gpu.driver.name, gpu.id.pool, gpu.name)


# The requirement that a scenario checks at the moment, and the known issues of the release.


class RequirementChecks:
    """Checks of a scenario. A failure counts for the requirement of the current `judging` block.

    Outside of a block it counts for the first requirement of the scenario. `log` adds a line to the history.
    """

    def __init__(
        self,
        profile: str,
        title: str,
        requirements: Sequence[str],
        log: Callable[[str], None],
        fixed: Collection[str] = (),
        api_server: str = "",
    ) -> None:
        """`fixed` are ids of known issues that this kubelet does not have. `api_server` is the profile of an API server
        of another release.
        """
        self.requirement, self._assertion = (requirements[0] if requirements else ""), STEP_FAILED
        self.deviations: list[KnownIssue] = []
        self.violations: list[Violation] = []
        """What failed in each of `deviations`, in the same order."""
        self.stale: list[KnownIssue] = []
        """Known issues with `happens = "always"` that did not happen."""
        self._known = known_issues(profile, frozenset(fixed), api_server)
        self._title = title
        self._log = log

    @contextmanager
    def judging(self, requirement: str, assertion: str) -> Iterator[None]:
        """A failure in this block counts for this requirement. After a known issue the scenario continues."""
        before, (self.requirement, self._assertion) = (self.requirement, self._assertion), (requirement, assertion)
        issue = self._issue(requirement, assertion)
        try:
            yield
            if issue and issue.happens == "always":
                self.stale.append(issue)
        except Violation as violation:
            if issue is None or (violation.requirement, violation.assertion) != (requirement, assertion):
                raise
            self._log(f"known issue {issue.id}: {issue.what}")
            self.deviations.append(issue)
            self.violations.append(violation)
        finally:
            self.requirement, self._assertion = before

    @property
    def is_known(self) -> bool:
        """Whether a failure now is a known issue of the release."""
        return self._issue(self.requirement, self._assertion) is not None

    def check(self, true: bool, expected: str, seen: object, sought: Sought | None = None) -> None:
        """Raises Violation if the condition is false."""
        if not true:
            violation = Violation(self.requirement, self._assertion, expected, str(seen))
            violation.sought = sought
            raise violation

    def _issue(self, requirement: str, assertion: str) -> KnownIssue | None:
        return next((i for i in self._known if i.covers(requirement, assertion, self._title)), None)
