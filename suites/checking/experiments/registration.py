"""The experiments of the registration: accepted, repeated and refused."""

from contextlib import suppress

from drahealth.manager.registration import Socket, find_sockets
from drahealth.suites.checking.experiments.first_steps import (
    SOCKET_LIMIT,
    described,
    known,
    registered,
    shared,
    shown,
    started,
)
from drahealth.suites.checking.experiments.services import call_without_claims
from drahealth.suites.checking.experiments.sockets import list_sockets
from drahealth.suites.checking.kubelet.plugin import Plugin
from drahealth.suites.checking.kubelet.registration import Answer, register, registrar
from drahealth.suites.checking.kubelet.waiting import within
from drahealth.suites.checking.lab import Lab
from drahealth.suites.checking.outcomes import Incomplete

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
