"""The experiment with two instances of a driver: the newer one replaces the older one while both serve."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace

from drahealth.manager.registration import find_sockets
from drahealth.proto.events import CdiSpecsRead
from drahealth.proto.values import ClaimRef, Health
from drahealth.suites.driver_checks.cdi_specs import read_specs
from drahealth.suites.driver_checks.claims_experiments import Allocator, Hung, allocator, claim_calls
from drahealth.suites.driver_checks.experiments import NotApplicable
from drahealth.suites.driver_checks.faults_experiments import lasting_faults
from drahealth.suites.driver_checks.faults_steps import Bench, expected
from drahealth.suites.driver_checks.lab import Facts, Lab
from drahealth.suites.driver_checks.observed import PUBLISH_LIMIT, Device
from drahealth.suites.driver_checks.profile.faults import Fault
from drahealth.suites.driver_checks.registration_experiments import (
    SOCKET_LIMIT,
    call_without_claims,
    described,
    list_sockets,
    plugin_of_process,
    registered,
    terminated,
)
from drahealth.suites.driver_checks.scripted_kubelet import Plugin
from drahealth.suites.driver_checks.slice_watch import watched_slices

_SLICES_LIMIT = 20.0
"""Seconds for ResourceSlices that the end of an instance removed, and that the other one publishes again."""


async def rolling_update(lab: Lab) -> None:
    """Replaces the driver by a second instance. Before and after the end of the first one, the second one is used."""
    older = await plugin_of_process(lab)
    async with allocator(lab, older) as made:
        first = await made.claim(made.shapes[0], "first")
        try:
            async with claim_calls(lab, older) as calls:
                if (await calls.prepare(first)).problem_of(first):
                    return  # the record shows why
            # Before the second instance starts: its socket can be there at once.
            known = set(find_sockets(lab.subject.places.registry_dir))
            async with _health(lab, older), _second_instance(lab) as newer_lab:
                newer = await registered(newer_lab, await described(newer_lab, SOCKET_LIMIT, known))
                await _replace(lab, older, newer_lab, newer, made, first)
        except Hung:
            return


@asynccontextmanager
async def _second_instance(lab: Lab) -> AsyncGenerator[Lab, None]:
    """The lab of the second instance, which is not registered. It ends as the driver does."""
    subject = lab.subject.successor()
    newer = replace(lab, subject=subject, facts=Facts())
    try:
        await subject.start()
        yield newer
        if subject.running:
            await terminated(newer)
    finally:
        await subject.close()


@asynccontextmanager
async def _health(lab: Lab, plugin: Plugin) -> AsyncGenerator[Bench | None, None]:
    """Two open streams of an instance; None if the driver has no health."""
    bench: Bench | None = Bench(lab, plugin)
    assert bench
    streams = bench
    try:
        try:
            await streams.open()
        except NotApplicable:
            bench = None
        yield bench
    finally:
        await streams.close()


async def _replace(lab: Lab, older: Plugin, newer_lab: Lab, newer: Plugin, made: Allocator, first: ClaimRef) -> None:
    await call_without_claims(lab, older)
    async with (
        _health(newer_lab, newer) as bench,
        claim_calls(newer_lab, newer) as calls,
        watched_slices(newer_lab, newer.driver) as watched,
    ):
        await calls.prepare(first)
        claims = [first]
        if len(made.shapes) > 1:
            claims.append(await made.claim(made.shapes[1], "second"))
            await calls.prepare(claims[1])
        broken = await _broken(bench) if bench else None
        published = await watched.complete(newer.driver, PUBLISH_LIMIT)
        watched.list()
        await terminated(lab)
        list_sockets(newer_lab, "ended")
        newer_lab.record(CdiSpecsRead(read_specs(*newer_lab.subject.places.cdi_dirs)))
        if bench:
            await bench.streams.report_again()
        for one in published:
            await watched.returned(one, _SLICES_LIMIT)
        watched.list()
        await calls.prepare(first)
        await calls.unprepare(*claims)
        if bench and broken and await bench.heals(*broken):
            await bench.shows(broken[1], expected(Health.HEALTHY), broken[0])
    newer_lab.subject.check_running()


async def _broken(bench: Bench) -> tuple[Fault, Device] | None:
    """Breaks a device while both instances run, if the driver profile has a fault for that."""
    try:
        fault = lasting_faults(bench.lab)[0]
    except NotApplicable:
        return None
    device = await bench.healthy_device(fault)
    if await bench.breaks(fault, device):
        await bench.shows(device, expected(fault.health), fault)
    return fault, device
