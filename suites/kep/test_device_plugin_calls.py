"""KEP-4680 and the device plugin API: the devices that containers get, and the calls before a container starts."""

from drahealth.suites.run.scenario import scenario
from drahealth.suites.story.node import Node


@scenario("DP-12")
async def test_containers_reuse_the_devices_of_an_init_container(node: Node) -> None:
    plugin = await node.device_plugin(devices=2)
    using = {"left": [plugin.request()], "right": [plugin.request()]}
    pod = await node.pod(containers=using, init={"first": [plugin.request()]})
    await pod["first"].is_in_state("running")
    await pod["first"].ends(0)
    with node.judging("DP-12", "each container runs with a device of its own"):
        await pod.is_running()
        await pod.has_one_device_each(plugin)


@scenario("DP-12")
async def test_a_plugin_is_called_before_each_start_of_a_container(node: Node) -> None:
    plugin, pod, gpu = await node.pod_with_a_plugin_gpu(pre_start=True)
    await pod["main"].ends(1)
    await pod["main"].is_in_state("running", restarts=1)
    state = await plugin.control.state()
    with node.judging("DP-12", "the plugin prepares the device before each start"):
        node.check(state.started == ((gpu.name,),) * 2, "two calls of PreStartContainer with the device", state)
