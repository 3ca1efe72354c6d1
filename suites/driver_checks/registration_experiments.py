"""The start, registration, services and end of a driver: what other experiments share, and the experiments."""

import asyncio
import signal
from collections.abc import Collection, Generator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Literal, TypeVar

from drahealth.fakes.waiting import within
from drahealth.manager.calls import path_text
from drahealth.manager.registration import Socket, find_sockets
from drahealth.proto.events import RegistrationFailed, SocketsListed
from drahealth.proto.health_apis import HEALTH_APIS
from drahealth.proto.services import KUBELET_SOCKET, PREPARE
from drahealth.suites.driver_checks.experiments import Incomplete
from drahealth.suites.driver_checks.lab import Lab
from drahealth.suites.driver_checks.observed_health import FIRST_REPORT_WAIT
from drahealth.suites.driver_checks.scripted_kubelet import (
    ACCEPT,
    Answer,
    Discovery,
    DraCalls,
    Found,
    Plugin,
    connected,
    plugin_of,
    preferred_version,
    register,
    registrar,
    subscribed,
)
from drahealth.suites.driver_checks.subject.places import socket_files

# The first steps of many experiments: start the driver, register it, and share what was learned.

T = TypeVar("T")

SOCKET_LIMIT = 30.0
"""Seconds until a driver must have a registration socket."""
_SETTLE = 1.0
"""Seconds to look for further drivers in the directory of a kubelet."""


async def started(lab: Lab) -> None:
    """Starts the driver unless it runs, or others start it."""
    if lab.subject.started_by_us and not lab.subject.running:
        await lab.subject.start()


async def described(lab: Lab, limit: float, known: Collection[Socket] = ()) -> Found:
    """The driver's registration socket, after GetInfo. Raises Incomplete if no server answers at one.

    `known` are sockets of an earlier process, which are ignored.
    """
    subject = lab.subject
    directory, only = subject.places.registry_dir, subject.places.socket

    def suits(socket: Socket) -> bool:
        return socket not in known and socket not in subject.others and (only is None or socket.path.name == only.name)

    settle = 0.0 if subject.started_by_us or only else _SETTLE
    discovery = Discovery(directory, subject.clock, lab.record, suits=suits, settle=settle)
    found = await discovery.find(limit, subject.check_running)
    if len(discovery.drivers) > 1:
        raise Incomplete(
            f"{directory} has several drivers: {', '.join(sorted(discovery.drivers))}; pass the socket of one"
        )
    if found and found.answered:
        return found
    if discovery.problems:
        raise Incomplete("; ".join(f"{shown(lab, path)}: {why}" for path, why in sorted(discovery.problems.items())))
    place = f"at {path_text(only)}" if only else f"in {shown(lab, directory)}"
    problem = f"no registration socket within {limit:g} s {place}; {_hint(lab)}"
    lab.record(RegistrationFailed(path_text(only or directory), problem))
    raise Incomplete(problem)


def shown(lab: Lab, path: Path) -> str:
    """A path of the registration directory as the user knows it: that of a started driver is the placeholder's."""
    directory = lab.subject.places.registry_dir
    if lab.subject.started_by_us and path.is_relative_to(directory):
        return "/".join(("{registry_dir}", *path.relative_to(directory).parts))
    return path_text(path)


def _hint(lab: Lab) -> str:
    """What to do if there is no registration socket."""
    if not lab.subject.started_by_us:
        return "start the driver, or pass the registration directory of its kubelet"
    places = lab.subject.places
    if places.seen:
        return f"the driver must create its registration socket in {places.inside(places.registry_dir)}"
    if not lab.subject.placeholders:
        return "the command has no placeholder, such as {registry_dir}; a driver with fixed paths needs --sandbox"
    if not lab.subject.placeholders & {"registry_dir", "kubelet_dir"}:
        return "pass {registry_dir} or {kubelet_dir} in the driver's command line"
    return "the driver must create its registration socket there"


async def registered(lab: Lab, found: Found, answer: Answer = ACCEPT) -> Plugin:
    """Answers the registration of a socket. Raises Incomplete if a kubelet cannot use what GetInfo returned."""
    if found.info is None:
        raise Incomplete(f"{shown(lab, found.socket.path)}: {found.problem}")
    try:
        plugin = plugin_of(found, lab.subject.places.outside)
    except ValueError as error:
        await _answer(lab, found, Answer(registered=False, error=str(error)))
        raise Incomplete(f"GetInfo: {error}") from None
    await _answer(lab, found, answer)
    return plugin


async def plugin_of_process(lab: Lab, limit: float = SOCKET_LIMIT) -> Plugin:
    """The plugin of a process with one experiment at a time; starts and registers it if that was not done."""
    if not lab.facts.plugin.done():
        await started(lab)
        with shared(lab.facts.plugin, "the driver was not registered") as fact:
            fact.set_result(await registered(lab, await described(lab, limit)))
    return await known(lab.facts.plugin)


async def known(fact: "asyncio.Future[T]") -> T:
    """Waits for a fact. Raises Incomplete if its experiment could not learn it."""
    return await asyncio.shield(fact)  # the end of one waiting experiment must not cancel the fact for the others


@contextmanager
def shared(fact: "asyncio.Future[Any]", otherwise: str) -> Generator["asyncio.Future[Any]", None, None]:
    """The block sets the fact. If it does not, experiments that wait for the fact raise Incomplete with the reason."""
    reason = otherwise
    try:
        yield fact
    except Incomplete as error:
        reason = str(error)
        raise
    finally:
        if not fact.done():
            fact.set_exception(Incomplete(reason))
            fact.exception()  # not every fact is needed


async def _answer(lab: Lab, found: Found, answer: Answer) -> None:
    async with registrar(found.socket, lab.subject.clock, lab.record) as calls:
        await calls.notify(answer)


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
        lab.subject.check_running()
        lab.record(RegistrationFailed(path_text(plugin.socket), "the registration socket no longer exists"))
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


# The end of a driver: it is terminated, or killed and started again.

KILL_LIMIT = 60.0
"""Seconds in which a killed process must be gone."""


async def end(lab: Lab) -> None:
    """Terminates the driver, after all other experiments; kills it if it does not exit."""
    lab.subject.check_running()
    await terminated(lab)
    list_sockets(lab, "ended")
    await lab.subject.children_ended()


async def restarted(lab: Lab, environment: Mapping[str, str] | None = None, *, kill: bool = True) -> Plugin:
    """The driver after an end and a start, with further variables, and registered.

    The sockets of a killed process remain, and are ignored. Without `kill` the driver gets SIGTERM, and so does one in
    a Pod: its workload is deleted, and created again.
    """
    sockets = set(find_sockets(lab.subject.places.registry_dir))
    await (killed(lab) if kill and not lab.subject.launch else terminated(lab))
    await lab.subject.start(environment)
    return await registered(lab, await described(lab, SOCKET_LIMIT, sockets))


async def terminated(lab: Lab) -> None:
    """Sends SIGTERM, and kills the driver if it does not end within its grace."""
    await lab.subject.signal(signal.SIGTERM)
    try:
        await within(lab.subject.clock, lab.run.profile.driver.grace, lab.subject.exited())
    except TimeoutError:
        await killed(lab)


async def killed(lab: Lab) -> None:
    """Kills the driver. Raises Incomplete if it does not end."""
    await lab.subject.signal(signal.SIGKILL)
    try:
        await within(lab.subject.clock, KILL_LIMIT, lab.subject.exited())
    except TimeoutError:
        raise Incomplete(f"the driver did not end within {KILL_LIMIT:g} s after SIGKILL") from None
