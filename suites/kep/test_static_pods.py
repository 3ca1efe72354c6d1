"""KEP-4680, device plugins: static pods. A static pod cannot have claims (N-08)."""

from drahealth.proto.values import Health
from drahealth.suites.run.scenario import scenario
from drahealth.suites.story.node import Node, static_pod


@scenario("DP-01", needs=("static-pods",))
async def test_a_static_pod_shows_the_health_of_its_device(node: Node) -> None:
    plugin = await node.device_plugin(devices=2)
    await node.running_pod(plugin.request())  # a static pod that starts before the plugin has registered has no device
    async with static_pod(node, plugin.request()) as pod:
        await pod.is_running()
        [gpu] = await pod.devices_of(plugin)
        await pod.shows(gpu, Health.HEALTHY)
        await gpu.becomes(Health.UNHEALTHY)
        await pod.shows(gpu, Health.UNHEALTHY)
        await gpu.becomes(Health.HEALTHY)
        await pod.shows(gpu, Health.HEALTHY)
