"""KEP-4680, Device Plugin implementation details: extended resources, and plugins that come and go."""

from drahealth.proto.values import Health
from drahealth.suites.scenario import scenario
from drahealth.suites.story.node import Node


@scenario("DP-01", "DP-03", counterpart_of=("e2e_node/device-plugin-health",))
async def test_an_unhealthy_device_of_a_device_plugin_shows_under_its_resource(node: Node) -> None:
    plugin = await node.device_plugin(devices=3)
    pod = await node.running_pod(plugin.request(2))
    with node.judging("DP-03", "as many devices as it asked for"):
        await pod.has_devices(2)
    sick, well = await pod.devices_of(plugin)
    await sick.becomes(Health.UNHEALTHY)
    await pod.shows(sick, Health.UNHEALTHY, message="")
    with node.judging("DP-03", "the entry has the devices of the container, each with its own health"):
        await pod.shows_entries({plugin.resource: [sick, well]})
        pod.still_shows(well, Health.HEALTHY)


@scenario("DP-02")
async def test_a_device_that_its_device_plugin_lists_healthy_again_shows_so(node: Node) -> None:
    _, pod, gpu = await node.pod_with_a_plugin_gpu()
    await gpu.becomes(Health.UNHEALTHY)
    await pod.shows(gpu, Health.UNHEALTHY)
    await gpu.becomes(Health.HEALTHY)
    await pod.shows(gpu, Health.HEALTHY)


@scenario("DP-01", "DP-02")
async def test_a_device_plugin_found_in_the_registration_directory_is_heard(node: Node) -> None:
    _, pod, gpu = await node.pod_with_a_plugin_gpu(registration="plugins_registry")
    await gpu.becomes(Health.UNHEALTHY)
    await pod.shows(gpu, Health.UNHEALTHY)
    with node.judging("DP-02", "it shows healthy again"):
        await gpu.becomes(Health.HEALTHY)
        await pod.shows(gpu, Health.HEALTHY)


@scenario("DP-03", "DP-01", counterpart_of=("devicemanager/TestUpdateAllocatedResourcesStatus",))
async def test_each_container_shows_the_devices_that_it_was_allocated(node: Node) -> None:
    plugin = await node.device_plugin(devices=2)
    pod = await node.running_pod(containers={"left": [plugin.request()], "right": [plugin.request()], "none": []})
    await pod.shows_only_in("left", "right")
    await pod.has_one_device_each(plugin)
    sick, well = await pod.devices_of(plugin)
    with node.judging("DP-01", "each shows the health of its own"):
        await sick.becomes(Health.UNHEALTHY)
        await pod.shows_somewhere(sick, Health.UNHEALTHY)
        await pod.shows_somewhere(well, Health.HEALTHY)


@scenario("DP-04", "DP-07")
async def test_the_devices_of_a_stopped_device_plugin_read_unknown_until_it_is_back(node: Node) -> None:
    plugin, pod, gpu = await node.pod_with_a_plugin_gpu()
    await gpu.becomes(Health.UNHEALTHY)
    await pod.shows(gpu, Health.UNHEALTHY)
    await plugin.stops()
    with node.judging("DP-04", "they read Unknown"):
        await pod.shows(gpu, Health.UNKNOWN, within="resync")
    await plugin.starts()
    with node.judging("DP-07", "the plugin is heard again"):
        await pod.shows(gpu, Health.UNHEALTHY)
        await gpu.becomes(Health.HEALTHY)
        await pod.shows(gpu, Health.HEALTHY)


@scenario("DP-04", "DP-07")
async def test_the_devices_of_a_crashed_device_plugin_read_unknown_until_it_is_back(node: Node) -> None:
    plugin, pod, gpu = await node.pod_with_a_plugin_gpu(registration="plugins_registry")
    await pod.shows(gpu, Health.HEALTHY)
    await plugin.crashes()
    with node.judging("DP-04", "they read Unknown"):
        await pod.shows(gpu, Health.UNKNOWN, within="resync")
    await plugin.starts()
    with node.judging("DP-07", "the plugin is heard again"):
        await gpu.becomes(Health.UNHEALTHY)
        await pod.shows(gpu, Health.UNHEALTHY)


@scenario("DP-05")
async def test_a_device_that_vanishes_from_the_list_reads_unknown_until_it_is_back(node: Node) -> None:
    _, pod, gpu = await node.pod_with_a_plugin_gpu(devices=2, preferred=("gpu-0",))
    await gpu.becomes(Health.UNHEALTHY)
    await pod.shows(gpu, Health.UNHEALTHY)
    await gpu.is_removed()
    with node.judging("DP-05", "it reads Unknown"):
        await pod.shows(gpu, Health.UNKNOWN, within="resync")
    await gpu.is_restored()
    await pod.shows(gpu, Health.UNHEALTHY)


@scenario("DP-06", "DP-07")
async def test_after_a_restart_of_the_kubelet_devices_read_unknown_until_their_plugin_is_back(node: Node) -> None:
    plugin, pod, gpu = await node.pod_with_a_plugin_gpu()
    await gpu.becomes(Health.UNHEALTHY)
    await pod.shows(gpu, Health.UNHEALTHY)
    await plugin.stops()
    await node.kubelet_restarts()
    with node.judging("DP-06", "they read Unknown"):
        await pod.shows(gpu, Health.UNKNOWN, within="resync")
    node.check(pod.has_never_restarted(), "the pod runs on", pod)
    await plugin.starts()
    with node.judging("DP-07", "the plugin is heard again"):
        await pod.shows(gpu, Health.UNHEALTHY)
        await gpu.becomes(Health.HEALTHY)
        await pod.shows(gpu, Health.HEALTHY)


@scenario("DP-07", needs=("restart-kubelet",))
async def test_a_device_plugin_registers_again_with_a_kubelet_that_was_restarted(node: Node) -> None:
    _, pod, gpu = await node.pod_with_a_plugin_gpu()
    await pod.shows(gpu, Health.HEALTHY)
    await node.kubelet_restarts()
    await gpu.becomes(Health.UNHEALTHY)
    await pod.shows(gpu, Health.UNHEALTHY, within="restart")


@scenario("DP-08")
async def test_a_container_with_a_claim_and_an_extended_resource_shows_both(node: Node) -> None:
    driver, plugin = await node.driver(), await node.device_plugin()
    claim = await node.claim(driver)
    pod = await node.running_pod(claim["gpu"], plugin.request())
    claimed, allocated = driver.gpus[0], plugin.gpus[0]
    await claimed.becomes(Health.UNHEALTHY, message="the claimed one")
    await pod.shows(claimed, Health.UNHEALTHY, message="the claimed one")
    await pod.shows(allocated, Health.HEALTHY)
    await allocated.becomes(Health.UNHEALTHY)
    await pod.shows(allocated, Health.UNHEALTHY)
    await pod.shows_entries({claim["gpu"].entry: [claimed], plugin.resource: [allocated]})


@scenario("DP-09", counterpart_of=("TestDeviceHealthUpdateWithDuplicateDeviceIDs",))
async def test_devices_of_two_resources_with_one_id_are_told_apart(node: Node) -> None:
    _, first, mine = await node.pod_with_a_plugin_gpu()
    _, second, other = await node.pod_with_a_plugin_gpu()
    await first.shows(mine, Health.HEALTHY)
    await second.shows(other, Health.HEALTHY)
    with node.judging("DP-09", "the right pod is told"):
        await mine.becomes(Health.UNHEALTHY)
        await first.shows(mine, Health.UNHEALTHY)
        second.still_shows(other, Health.HEALTHY)
        await other.becomes(Health.UNHEALTHY)
        await second.shows(other, Health.UNHEALTHY)


@scenario("TERM-02", "TERM-01")
async def test_a_pod_that_has_ended_keeps_what_it_showed_of_its_device_plugins_device(node: Node) -> None:
    plugin = await node.device_plugin()
    gpu = plugin.gpus[0]
    pod = await node.running_pod(plugin.request(), restart="Never")
    await gpu.becomes(Health.UNHEALTHY)
    await pod.shows(gpu, Health.UNHEALTHY)
    await pod.ends(1)
    await pod.is_in_phase("Failed")
    await gpu.becomes(Health.HEALTHY)
    next_pod = await node.running_pod(plugin.request())
    await next_pod.shows(gpu, Health.HEALTHY)
    with node.judging("TERM-02", "what a device plugin said last is kept"):
        pod.still_shows(gpu, Health.UNHEALTHY)
