"""Which services the driver serves, advertised or not."""

from drahealth.proto.health_apis import HEALTH_APIS
from drahealth.proto.services import PREPARE
from drahealth.suites.checking.experiments.first_steps import known, shared
from drahealth.suites.checking.kubelet.connection import connected
from drahealth.suites.checking.kubelet.dra_calls import DraCalls, preferred_version
from drahealth.suites.checking.kubelet.plugin import Plugin
from drahealth.suites.checking.kubelet.subscriber import subscribed
from drahealth.suites.checking.lab import Lab
from drahealth.suites.checking.observed.streams import FIRST_REPORT_WAIT

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
