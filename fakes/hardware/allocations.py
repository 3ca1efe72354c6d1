"""What a fake device plugin does for one container: the devices that it prefers, allocates and starts with."""

from collections import deque
from collections.abc import Iterable
from typing import Any

import grpc

from drahealth.fakes.control.device_plugin import KEPT, PluginOptions
from drahealth.proto.device_plugin import ALLOCATE, GET_PREFERRED_ALLOCATION, PRE_START_CONTAINER


class Calls:
    """The devices of the newest calls, and the number of all calls."""

    def __init__(self) -> None:
        self.newest = deque[tuple[str, ...]](maxlen=KEPT)
        self.count = 0

    def add(self, devices: tuple[str, ...]) -> None:
        """Records a call with these devices."""
        self.newest.append(devices)
        self.count += 1


class Allocations:
    """Handles GetPreferredAllocation, Allocate and PreStartContainer (device plugin API v1beta1)."""

    def __init__(self, options: PluginOptions) -> None:
        self._options = options
        self._inventory = options.all_devices
        self.allocated = Calls()
        """The calls of Allocate, by container."""
        self.started = Calls()
        """The calls of PreStartContainer."""

    async def prefer(self, request: Any, context: Any) -> Any:
        """Prefers the devices of the options, then the first ones by name."""
        response = GET_PREFERRED_ALLOCATION.response()
        for container in request.container_requests:
            available = list(container.available_deviceIDs)
            first = [device for device in self._options.preferred if device in available]
            chosen = dict.fromkeys((*container.must_include_deviceIDs, *first, *sorted(available)))
            response.container_responses.add(deviceIDs=list(chosen)[: container.allocation_size])
        return response

    async def allocate(self, request: Any, context: Any) -> Any:
        """Gives each container its CDI devices, or environment variables without CDI. Unknown devices are NOT_FOUND."""
        response = ALLOCATE.response()
        wanted = [tuple(container.devices_ids) for container in request.container_requests]
        if unknown := {one for devices in wanted for one in devices} - set(self._options.devices):
            await context.abort(grpc.StatusCode.NOT_FOUND, f"unknown devices: {', '.join(sorted(unknown))}")
        for devices in wanted:
            self.allocated.add(devices)
            kind = self._options.cdi_kind
            names = [{"name": f"{kind}={device}"} for device in devices] if kind else []
            envs = {"DEVICES": ",".join(devices), **({} if kind else self._environment(devices))}
            response.container_responses.add(envs=envs, cdi_devices=names)
        return response

    async def pre_start(self, request: Any, context: Any) -> Any:
        """Records the devices of a container that starts."""
        self.started.add(tuple(request.devices_ids))
        return PRE_START_CONTAINER.response()

    def _environment(self, devices: Iterable[str]) -> dict[str, str]:
        """Environment variables of a container with these devices, if there is no CDI specification."""
        known = (self._inventory.find(device) for device in devices)
        return {name: value for device in known if device for name, value in device.environment.items()}
