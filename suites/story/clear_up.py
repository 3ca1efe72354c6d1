"""After a story: whatever it has made goes, from the last to the first, whatever becomes of each."""

import asyncio
from contextlib import AsyncExitStack, suppress

from drahealth.fakes.cluster.api import DEVICE_CLASSES, NAMESPACES, PODS, REPLICA_SETS, ApiError
from drahealth.suites.errors import HarnessError
from drahealth.suites.story.device_plugin import DevicePlugin
from drahealth.suites.story.hardware import Driver
from drahealth.suites.story.history import History
from drahealth.suites.story.pod_watch import PodWatch
from drahealth.suites.targets.target import Target


class ClearUp:
    """What there is to clear up in a namespace; drivers and plugins are added as they are made."""

    def __init__(self, target: Target, namespace: str, watch: PodWatch, history: History) -> None:
        self.drivers: list[Driver] = []
        self.plugins: list[DevicePlugin] = []
        self._target = target
        self._namespace = namespace
        self._watch = watch
        self._history = history

    def add_to(self, stack: AsyncExitStack) -> None:
        """The stack clears up when it ends, after what is pushed on it later."""
        api = self._target.api
        stack.push_async_callback(self._target.leave)
        stack.push_async_callback(self._watch.stop)
        stack.push_async_callback(api.delete, NAMESPACES, self._namespace)
        for name in {driver.name for driver in self.drivers}:
            stack.push_async_callback(api.delete, DEVICE_CLASSES, name)
        made: list[Driver | DevicePlugin] = [*self.drivers, *self.plugins]
        for control in (one.control for one in made):
            stack.push_async_callback(self._target.drop_driver, control)
            stack.push_async_callback(control.retire)

    async def end_pods(self) -> None:
        """No pod is left; their drivers must be there. Raises HarnessError if one does not go.

        One whose final status the API server refuses would stay for good (B-29, B-32): it gets no more grace.
        """
        for made in await self._target.api.list(REPLICA_SETS, self._namespace):  # else their pods come again
            await self._target.api.delete(REPLICA_SETS, made["metadata"]["name"], self._namespace)
        for grace in (None, 0):
            for pod in await self._target.api.list(PODS, self._namespace):
                with suppress(ApiError):
                    await self._target.api.delete(PODS, pod["metadata"]["name"], self._namespace, grace)
            for _ in range(round(self._target.windows["start"])):
                if await self._history.until(lambda: not self._watch.statuses, 1.0):
                    return
                self._target.check()  # pods do not go without their driver
        raise HarnessError(f"pods in {self._namespace} did not go away", await self._target.log_tail())

    async def revive_drivers(self) -> None:
        """A story may have ended while a driver was down; pods do not go before one has unprepared their claims."""
        for name in {driver.name for driver in self.drivers}:
            instances = [driver.control for driver in self.drivers if driver.name == name]
            states = [await control.state() for control in instances]
            if not any(state.running and state.registered for state in states):
                await instances[-1].stop()
                await instances[-1].start()
                with suppress(TimeoutError):
                    await asyncio.wait_for(instances[-1].wait_registered(), self._target.windows["start"])
