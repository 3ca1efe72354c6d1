"""Cleanup after a story: delete all its objects in reverse order, even if a deletion fails."""

import asyncio
from contextlib import AsyncExitStack, suppress

from drahealth.fakes.cluster.api import DEVICE_CLASSES, NAMESPACES, PODS, REPLICA_SETS, SLICES, ApiError
from drahealth.suites.errors import HarnessError
from drahealth.suites.story.device_plugin import DevicePlugin
from drahealth.suites.story.hardware import Driver
from drahealth.suites.story.history import History
from drahealth.suites.story.pod_watch import PodWatch
from drahealth.suites.targets.target import Target


class Cleanup:
    """Cleanup of a namespace, and of the drivers and plugins that the story adds to it."""

    def __init__(self, target: Target, namespace: str, watch: PodWatch, history: History) -> None:
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
