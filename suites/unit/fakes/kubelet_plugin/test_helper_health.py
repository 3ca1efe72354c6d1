"""The health half of a driver on the helper: one source, all health APIs."""

import asyncio
from collections.abc import AsyncIterator, Sequence

import grpc
import pytest

from drahealth.fakes.kubelet_plugin import HealthNotSupported
from drahealth.proto.health_apis import V1, V1ALPHA1, HealthApi
from drahealth.proto.values import DeviceHealth, Health
from drahealth.suites.unit.expected_errors import rpc_error
from drahealth.suites.unit.fakes.kubelet_plugin.plugin_rig import Plugin, PluginRig

WELL = DeviceHealth("node-a", "gpu-0", Health.HEALTHY)
ILL = DeviceHealth("node-a", "gpu-0", Health.UNHEALTHY, "xid 79")
OTHER = DeviceHealth("node-a", "gpu-1", Health.HEALTHY)


class Watched(Plugin):
    """Reports what is put into it; None ends, an exception is raised."""

    def __init__(self, *reports: Sequence[DeviceHealth] | Exception | None) -> None:
        super().__init__()
        self.asked = 0
        self.reports: asyncio.Queue[Sequence[DeviceHealth] | Exception | None] = asyncio.Queue()
        for report in reports:
            self.reports.put_nowait(report)

    async def watch_health(self) -> AsyncIterator[Sequence[DeviceHealth]]:
        self.asked += 1
        while (report := await self.reports.get()) is not None:
            if isinstance(report, Exception):
                raise report
            yield report


async def test_driver_with_health_advertises_the_health_apis(rig: PluginRig) -> None:
    async with rig.running(Watched([WELL])):
        versions = list((await rig.ask()).supported_versions)
    assert versions == ["v1.DRAPlugin", "v1beta1.DRAPlugin", "v1.DRAResourceHealth", "v1alpha1.DRAResourceHealth"]


async def test_one_source_feeds_the_streams_of_all_health_apis(rig: PluginRig) -> None:
    plugin = Watched([WELL])
    async with rig.running(plugin), rig.watch(V1) as first, rig.watch(V1ALPHA1) as second:
        for report in ([WELL], [ILL, OTHER], [OTHER]):
            if report != [WELL]:
                plugin.reports.put_nowait(report)
            assert [list(await stream.report()) for stream in (first, second)] == [report, report]
    assert plugin.asked == 1


async def test_new_stream_receives_the_current_health_at_once(rig: PluginRig) -> None:
    plugin = Watched([WELL])
    async with rig.running(plugin):
        async with rig.watch(V1) as stream:
            await stream.report()
            plugin.reports.put_nowait([ILL])
            await stream.report()
        async with rig.watch(V1ALPHA1) as stream:
            assert await stream.report() == (ILL,)


async def test_stream_opened_before_the_first_report_waits_for_it(rig: PluginRig) -> None:
    plugin = Watched()
    async with rig.running(plugin), rig.watch(V1) as stream:
        await rig.ask()
        plugin.reports.put_nowait([WELL])
        assert await stream.report() == (WELL,)


async def test_heartbeats_are_sent_without_changes(rig: PluginRig) -> None:
    async with rig.running(Watched([WELL]), heartbeat=10.0), rig.watch(V1) as stream:
        await stream.report()
        for _ in range(3):
            rig.clock.jump(10)
            assert await stream.report() == (WELL,)


@pytest.mark.parametrize(
    ("plugin", "options"),
    [
        (Plugin(), {}),
        (Watched([WELL]), {"health_apis": ()}),
    ],
    ids=["no health", "opted out"],
)
@pytest.mark.parametrize("health_api", [V1, V1ALPHA1])
async def test_a_driver_without_health_advertises_none_and_answers_unimplemented(
    rig: PluginRig, plugin: Plugin, options: dict[str, tuple[str, ...]], health_api: HealthApi
) -> None:
    async with rig.running(plugin, **options):
        assert not [version for version in (await rig.ask()).supported_versions if "Health" in version]
        await unimplemented(rig, health_api)


async def test_driver_raising_health_not_supported_answers_unimplemented(rig: PluginRig) -> None:
    plugin = Watched(HealthNotSupported())
    async with rig.running(plugin):
        for health_api in (V1, V1ALPHA1, V1):
            await unimplemented(rig, health_api)
    assert (plugin.asked, rig.errors) == (1, [])


async def test_one_health_api_can_be_served_without_the_other(rig: PluginRig) -> None:
    async with rig.running(Watched([WELL]), health_apis=("v1alpha1.DRAResourceHealth",)):
        await unimplemented(rig, V1)
        async with rig.watch(V1ALPHA1) as stream:
            assert await stream.report() == (WELL,)


async def test_ended_source_ends_the_streams_and_restarts_with_the_next(rig: PluginRig) -> None:
    plugin = Watched([WELL])
    async with rig.running(plugin):
        async with rig.watch(V1) as stream:
            await stream.report()
            plugin.reports.put_nowait(None)
            with pytest.raises(StopAsyncIteration):
                await stream.raw()
        plugin.reports.put_nowait([ILL])
        async with rig.watch(V1) as stream:
            assert await stream.report() == (ILL,)
    assert plugin.asked == 2


async def test_failed_source_ends_the_streams_and_is_reported(rig: PluginRig) -> None:
    plugin = Watched([WELL])
    async with rig.running(plugin), rig.watch(V1) as stream:
        await stream.report()
        plugin.reports.put_nowait(OSError("the device library is gone"))
        with rpc_error(grpc.StatusCode.UNKNOWN):
            await stream.raw()
    assert rig.errors == ["the device library is gone"]


async def unimplemented(rig: PluginRig, health_api: HealthApi) -> None:
    async with rig.watch(health_api) as stream:
        with rpc_error(grpc.StatusCode.UNIMPLEMENTED):
            await stream.raw()
