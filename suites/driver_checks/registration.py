"""The experiments of the registration: accepted, repeated and refused; and the services of a driver."""

from contextlib import suppress
from typing import Literal

from drahealth.fakes.waiting import within
from drahealth.manager.calls import path_text
from drahealth.manager.registration import Socket, find_sockets
from drahealth.proto.device_plugin import KUBELET_SOCKET
from drahealth.proto.events import SocketsListed
from drahealth.proto.health_apis import HEALTH_APIS
from drahealth.proto.services import PREPARE
from drahealth.suites.driver_checks.experiment import Incomplete
from drahealth.suites.driver_checks.first_steps import (
    SOCKET_LIMIT,
    described,
    known,
    registered,
    shared,
    shown,
    started,
)
from drahealth.suites.driver_checks.lab import Lab
from drahealth.suites.driver_checks.observed_health import FIRST_REPORT_WAIT
from drahealth.suites.driver_checks.scripted_kubelet import DraCalls, Plugin, connected, preferred_version, subscribed
from drahealth.suites.driver_checks.scripted_registration import Answer, register, registrar
from drahealth.suites.driver_checks.subject.places import socket_files

# The socket files of a driver.


def list_sockets(lab: Lab, moment: Literal["registered", "ended"]) -> None:
    """Records the sockets that a kubelet finds in the registration directory, and the driver's in other directories."""
    places, foreign = lab.subject.places, lab.subject.foreign_sockets
    sockets = (socket for socket in find_sockets(places.registry_dir) if socket not in lab.subject.others)
    registry = sorted(path_text(socket.path) for socket in sockets)
    plugins = sorted(path_text(path) for path in socket_files(places.plugins_dir) if path not in foreign)
    beside_kubelet = (path for path in socket_files(places.device_plugins_dir) if path.name != KUBELET_SOCKET)
    device_plugins = sorted(path_text(path) for path in beside_kubelet if path not in foreign)
    lab.record(SocketsListed(lab.subject.label, moment, tuple(registry), tuple(plugins), tuple(device_plugins)))


# Which services the driver serves, advertised or not.

EMPTY_CALL_LIMIT = 15.0
"""Seconds for a call without claims."""


async def services(lab: Lab) -> None:
    """Calls prepare without claims in each version of the DRA service, and opens a stream of each health API."""
    with shared(lab.facts.health_apis, "the health APIs were not called") as fact:
        plugin = await known(lab.facts.plugin)
        for version in PREPARE:
            await _prepare_nothing(lab, plugin, version)
        fact.set_result(tuple([name for name in HEALTH_APIS if await _streams(lab, plugin, name)]))


async def call_without_claims(lab: Lab, plugin: Plugin) -> None:
    """Prepares no claims with the DRA service that a kubelet calls: an answer shows that the driver works."""
    if version := preferred_version(plugin):
        await _prepare_nothing(lab, plugin, version)


async def _prepare_nothing(lab: Lab, plugin: Plugin, version: str) -> None:
    async with connected(plugin.endpoint) as channel:
        calls = DraCalls(channel, lab.subject.clock, lab.record, plugin, version)
        await calls.prepare(limit=EMPTY_CALL_LIMIT)
    lab.subject.check_running()


async def _streams(lab: Lab, plugin: Plugin, name: str) -> bool:
    """Whether a stream has a report, or stays open without one."""
    async with subscribed(plugin, HEALTH_APIS[name], lab.subject.clock, lab.record) as stream:
        reported = await stream.reported(FIRST_REPORT_WAIT)
        streams = reported or stream.is_open
    lab.subject.check_running()
    return streams


# The experiments of the registration: accepted, repeated and refused.

LATE = 3.0
"""Seconds between GetInfo and a late answer; a busy kubelet answers late, too."""
REFUSAL = Answer(False, "drahealth check refuses this registration to see what the driver does", delay=LATE)
REFUSED_LIMIT = 20.0
"""Seconds in which a refused driver must answer GetInfo again, or exit."""
_RETRY = 0.5


async def registration(lab: Lab) -> None:
    """Accepts the registration of the driver, and shares what GetInfo returned.

    A GetInfo that fails or is invalid ends it, too: the checks judge its record.
    """
    with shared(lab.facts.plugin, "the driver was not registered") as fact:
        await started(lab)
        found = await described(lab, SOCKET_LIMIT)
        if found.info is None:
            fact.set_exception(Incomplete(f"{shown(lab, found.socket.path)}: {found.problem}"))
            fact.exception()  # otherwise asyncio logs it if nobody waits
            return
        fact.set_result(await registered(lab, found))
    list_sockets(lab, "registered")


async def reregistration(lab: Lab) -> None:
    """Registers at the same socket again, and calls the driver."""
    plugin = await known(lab.facts.plugin)
    await register_again(lab, plugin)
    await call_without_claims(lab, plugin)


async def register_again(lab: Lab, plugin: Plugin) -> None:
    """Registers at the same socket, as a restarted kubelet does. Raises Incomplete if the socket is gone."""
    socket = next((one for one in find_sockets(lab.subject.places.registry_dir) if one.path == plugin.socket), None)
    if socket is None:
        raise Incomplete(f"registration socket {plugin.socket.name} no longer exists")
    await register(socket, lab.subject.clock, lab.record)


async def refused_registration(lab: Lab) -> None:
    """Refuses the registration, and calls GetInfo again until the driver answers or exits."""
    await started(lab)
    found = await described(lab, SOCKET_LIMIT)
    await registered(lab, found, REFUSAL)
    with suppress(TimeoutError):
        await within(lab.subject.clock, REFUSED_LIMIT, _answers_or_exits(lab))
    list_sockets(lab, "registered")


async def _answers_or_exits(lab: Lab) -> None:
    while lab.subject.running:
        await lab.subject.clock.sleep(_RETRY)
        for socket in find_sockets(lab.subject.places.registry_dir):
            if await _answers(lab, socket):
                return


async def _answers(lab: Lab, socket: Socket) -> bool:
    async with registrar(socket, lab.subject.clock, lab.record) as calls:
        found = await calls.get_info()
    return found.info is not None
