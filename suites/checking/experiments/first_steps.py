"""The first steps of many experiments: start the driver, register it, and share what was learned."""

import asyncio
from collections.abc import Collection, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from drahealth.manager.calls import path_text
from drahealth.manager.registration import Socket
from drahealth.proto.events import RegistrationFailed
from drahealth.suites.checking.kubelet.plugin import Plugin
from drahealth.suites.checking.kubelet.registration import (
    ACCEPT,
    Answer,
    Discovery,
    Found,
    plugin_of,
    registrar,
)
from drahealth.suites.checking.lab import Lab
from drahealth.suites.checking.outcomes import Incomplete

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
