"""The kubelet of a device plugin: it accepts or refuses registrations, answers late, and restarts."""

import asyncio
from pathlib import Path
from typing import Any

from drahealth.manager.kubelet_socket import KubeletSocket
from drahealth.manager.registration import DIAL_LIMIT, Refused
from drahealth.proto.clock import Clock
from drahealth.proto.device_plugin import VERSION
from drahealth.proto.events import KubeletSwitched, Observe
from drahealth.proto.sockets import check_path
from drahealth.suites.checking.device_plugins.calls import Unanswered, plugin_client, served
from drahealth.suites.checking.device_plugins.registered import RegisteredPlugin, registration_problem
from drahealth.suites.checking.experiments.experiment import Process
from drahealth.suites.checking.kubelet.registration import (
    ACCEPT,
    DEVICE_PLUGIN,
    Answer,
    Discovery,
    Found,
    Registrar,
    registrar,
)
from drahealth.suites.checking.subject.places import Places
from drahealth.suites.errors import HarnessError

DOWN = 2.0
"""Seconds between the stop and the start of a kubelet that restarts."""


class DevicePluginKubelet:
    """Serves kubelet.sock, and looks for registration sockets, until it is stopped."""

    def __init__(self, label: Process, places: Places, clock: Clock, observe: Observe) -> None:
        self.answer: Answer = ACCEPT
        """The answer to each registration."""
        self.refusal = ""
        """Why it refused the last registration, apart from `answer`; empty if it refused none since its start."""
        self.refused_at = 0.0
        """When."""
        self._label = label
        self._places = places
        self._clock = clock
        self._observe = observe
        self._socket = KubeletSocket(places.device_plugins_dir, self._called, clock, observe, logs=False)
        self._answered: asyncio.Queue[RegisteredPlugin] = asyncio.Queue()
        self._search: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Removes the sockets of all device plugins, as a starting kubelet does, and serves. Raises HarnessError."""
        self.refusal = ""
        await self._socket.start()
        if not self._socket.path.exists():
            raise HarnessError(f"cannot serve {self._socket.path}", "set TMPDIR to a short path on a local disk")
        self._observe(KubeletSwitched(self._label, running=True))
        self._search = asyncio.create_task(self._find())

    async def stop(self) -> None:
        """Stops to serve; no effect if it does not run."""
        search, self._search = self._search, None
        if search:
            search.cancel()
            await asyncio.gather(search, return_exceptions=True)
            await self._socket.stop()
            self._socket.path.unlink(missing_ok=True)
            self._observe(KubeletSwitched(self._label, running=False))

    async def restart(self) -> None:
        """Stops, and starts again. Registrations from before no longer count."""
        await self.stop()
        await self._clock.sleep(DOWN)
        self.forget()
        await self.start()

    def forget(self) -> None:
        """Registrations from before no longer count."""
        while not self._answered.empty():
            self._answered.get_nowait()

    async def answered(self) -> RegisteredPlugin:
        """The next plugin whose registration was answered: accepted, or refused by `answer`."""
        return await self._answered.get()

    async def _called(self, resource: str, endpoint: Path, version: str) -> None:
        """Handles a call of Register. Raises Refused."""
        answer = self.answer  # an experiment can change it before the delay has passed
        plugin = await self._accepted(RegisteredPlugin(resource, endpoint, "kubelet.sock"), version)
        await self._clock.sleep(answer.delay)
        self._answered.put_nowait(plugin)
        if not answer.registered:
            raise Refused(answer.error)

    async def _find(self) -> None:
        """Registers the plugin of the first registration socket in the other directory."""
        known: set[Any] = set()
        while True:
            discovery = Discovery(
                self._places.registry_dir,
                self._clock,
                self._observe,
                suits=lambda socket: socket not in known,
                kind=DEVICE_PLUGIN,
            )
            found = await discovery.find(DIAL_LIMIT, lambda: None)
            if found:
                known.add(found.socket)
            if found and found.info is not None and found.info.type == DEVICE_PLUGIN:
                async with registrar(found.socket, self._clock, self._observe) as calls:
                    await self._found(found, calls)

    async def _found(self, found: Found, calls: Registrar) -> None:
        info = found.info
        endpoint = self._places.outside(Path(info.endpoint)) if info.endpoint else found.socket.path
        described = RegisteredPlugin(info.name, endpoint, "plugins_registry")
        try:
            plugin = await self._accepted(described, *info.supported_versions)
        except Refused as refused:
            await calls.notify(Answer(registered=False, error=str(refused)))
            return
        await calls.notify(self.answer)
        self._answered.put_nowait(plugin)

    async def _accepted(self, plugin: RegisteredPlugin, *versions: str) -> RegisteredPlugin:
        """The plugin with its options, if its registration is valid. Raises Refused."""
        try:
            if problem := registration_problem(plugin.resource, *versions):
                raise Refused(problem)
            return await self._described(plugin)
        except Refused as refused:
            self.refusal, self.refused_at = str(refused), self._clock.now()
            raise

    async def _described(self, plugin: RegisteredPlugin) -> RegisteredPlugin:
        """The plugin with its options: a kubelet connects, and asks for them. Raises Refused."""
        try:
            check_path(plugin.endpoint)
        except ValueError as error:
            raise Refused(f"invalid endpoint: {error}") from None
        if not await served(plugin.endpoint, self._clock):
            raise Refused(f"no server listens at endpoint {plugin.endpoint.name} within {DIAL_LIMIT:g} s")
        async with plugin_client(plugin.endpoint, plugin.resource, self._clock, self._observe) as client:
            try:
                options = await client.options()
            except Unanswered as error:
                raise Refused(f"GetDevicePluginOptions of {VERSION} failed: {error}") from None
        return RegisteredPlugin(
            plugin.resource,
            plugin.endpoint,
            plugin.way,
            has_preference=options.get_preferred_allocation_available,
            wants_pre_start=options.pre_start_required,
        )
