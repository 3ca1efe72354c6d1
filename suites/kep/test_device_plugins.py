"""KEP-4680, Device Plugin implementation details: extended resources, and plugins that stop and restart."""

from drahealth.proto.values import Health
from drahealth.suites.run.scenario import scenario
from drahealth.suites.story.node import Node


@scenario("DP-01", "DP-03", counterpart_of=("e2e_node/device-plugin-health",))
async def test_an_unhealthy_device_of_a_device_plugin_shows_under_its_resource(node: Node) -> None:
    plugin = await node.device_plugin(devices=3)
    pod = await node.running_pod(plugin.request(2))
    with node.judging("DP-03", "the pod shows the requested number of devices"):
        await pod.has_devices(2)
    unhealthy, healthy = await pod.devices_of(plugin)
    await unhealthy.becomes(Health.UNHEALTHY)
    await pod.shows(unhealthy, Health.UNHEALTHY, message="")
    with node.judging("DP-03", "the entry shows each device with its own health"):
        await pod.shows_entries({plugin.resource: [unhealthy, healthy]})
        pod.still_shows(healthy, Health.HEALTHY)


@scenario("DP-02")
async def test_a_device_that_a_device_plugin_lists_as_healthy_again_shows_healthy(node: Node) -> None:
    _, pod, gpu = await node.pod_with_a_plugin_gpu()
    await gpu.becomes(Health.UNHEALTHY)
    await pod.shows(gpu, Health.UNHEALTHY)
    await gpu.becomes(Health.HEALTHY)
    await pod.shows(gpu, Health.HEALTHY)


@scenario("DP-01", "DP-02")
async def test_a_device_plugin_in_the_registration_directory_is_watched(node: Node) -> None:
    _, pod, gpu = await node.pod_with_a_plugin_gpu(registration="plugins_registry")
    await gpu.becomes(Health.UNHEALTHY)
    await pod.shows(gpu, Health.UNHEALTHY)
    with node.judging("DP-02", "it shows healthy again"):
        await gpu.becomes(Health.HEALTHY)
        await pod.shows(gpu, Health.HEALTHY)


@scenario("DP-03", "DP-01", counterpart_of=("devicemanager/TestUpdateAllocatedResourcesStatus",))
async def test_each_container_shows_its_allocated_devices(node: Node) -> None:
    plugin = await node.device_plugin(devices=2)
    pod = await node.running_pod(containers={"left": [plugin.request()], "right": [plugin.request()], "none": []})
    await pod.shows_only_in("left", "right")
    await pod.has_one_device_each(plugin)
    unhealthy, healthy = await pod.devices_of(plugin)
    with node.judging("DP-01", "each container shows its own device's health"):
        await unhealthy.becomes(Health.UNHEALTHY)
        await pod.shows_somewhere(unhealthy, Health.UNHEALTHY)
        await pod.shows_somewhere(healthy, Health.HEALTHY)


@scenario("DP-04", "DP-07")
async def test_devices_of_a_stopped_device_plugin_show_unknown_until_it_restarts(node: Node) -> None:
    plugin, pod, gpu = await node.pod_with_a_plugin_gpu()
    await gpu.becomes(Health.UNHEALTHY)
    await pod.shows(gpu, Health.UNHEALTHY)
    await plugin.stops()
    with node.judging("DP-04", "they show as Unknown"):
        await pod.shows(gpu, Health.UNKNOWN, within="resync")
    await plugin.starts()
    with node.judging("DP-07", "the plugin is watched again"):
        await pod.shows(gpu, Health.UNHEALTHY)
        await gpu.becomes(Health.HEALTHY)
        await pod.shows(gpu, Health.HEALTHY)


@scenario("DP-04", "DP-07")
async def test_devices_of_a_crashed_device_plugin_show_unknown_until_it_restarts(node: Node) -> None:
    plugin, pod, gpu = await node.pod_with_a_plugin_gpu(registration="plugins_registry")
    await pod.shows(gpu, Health.HEALTHY)
    await plugin.crashes()
    with node.judging("DP-04", "they show as Unknown"):
        await pod.shows(gpu, Health.UNKNOWN, within="resync")
    await plugin.starts()
    with node.judging("DP-07", "the plugin is watched again"):
        await gpu.becomes(Health.UNHEALTHY)
        await pod.shows(gpu, Health.UNHEALTHY)


@scenario("DP-05")
async def test_a_device_removed_from_the_list_shows_unknown_until_it_is_listed_again(node: Node) -> None:
    _, pod, gpu = await node.pod_with_a_plugin_gpu(devices=2, preferred=("gpu-0",))
    await gpu.becomes(Health.UNHEALTHY)
    await pod.shows(gpu, Health.UNHEALTHY)
    await gpu.is_removed()
    with node.judging("DP-05", "it shows as Unknown"):
        await pod.shows(gpu, Health.UNKNOWN, within="resync")
    await gpu.is_restored()
    await pod.shows(gpu, Health.UNHEALTHY)


@scenario("DP-06", "DP-07")
async def test_after_a_kubelet_restart_devices_show_unknown_until_their_plugin_registers(node: Node) -> None:
    plugin, pod, gpu = await node.pod_with_a_plugin_gpu()
    await gpu.becomes(Health.UNHEALTHY)
    await pod.shows(gpu, Health.UNHEALTHY)
    await plugin.stops()
    await node.kubelet_restarts()
    with node.judging("DP-06", "they show as Unknown"):
        await pod.shows(gpu, Health.UNKNOWN, within="resync")
    node.check(pod.has_never_restarted(), "the pod runs on", pod)
    await plugin.starts()
    with node.judging("DP-07", "the plugin is watched again"):
        await pod.shows(gpu, Health.UNHEALTHY)
        await gpu.becomes(Health.HEALTHY)
        await pod.shows(gpu, Health.HEALTHY)


@scenario("DP-07", needs=("restart-kubelet",))
async def test_a_device_plugin_registers_again_after_a_kubelet_restart(node: Node) -> None:
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
    await claimed.becomes(Health.UNHEALTHY, message="the claimed device failed")
    await pod.shows(claimed, Health.UNHEALTHY, message="the claimed device failed")
    await pod.shows(allocated, Health.HEALTHY)
    await allocated.becomes(Health.UNHEALTHY)
    await pod.shows(allocated, Health.UNHEALTHY)
    await pod.shows_entries({claim["gpu"].entry: [claimed], plugin.resource: [allocated]})


@scenario("DP-09", counterpart_of=("TestDeviceHealthUpdateWithDuplicateDeviceIDs",))
async def test_devices_of_two_resources_with_the_same_id_keep_their_own_health(node: Node) -> None:
    _, first, mine = await node.pod_with_a_plugin_gpu()
    _, second, other = await node.pod_with_a_plugin_gpu()
    await first.shows(mine, Health.HEALTHY)
    await second.shows(other, Health.HEALTHY)
    with node.judging("DP-09", "only the right pod changes"):
        await mine.becomes(Health.UNHEALTHY)
        await first.shows(mine, Health.UNHEALTHY)
        second.still_shows(other, Health.HEALTHY)
        await other.becomes(Health.UNHEALTHY)
        await second.shows(other, Health.UNHEALTHY)


@scenario("TERM-02", "TERM-01")
async def test_a_terminated_pod_keeps_the_health_of_its_device_plugin_device(node: Node) -> None:
    plugin, another = await node.device_plugin(), await node.device_plugin()
    gpu, other = plugin.gpus[0], another.gpus[0]
    pod = await node.running_pod(plugin.request(), restart="Never")
    await gpu.becomes(Health.UNHEALTHY)
    await pod.shows(gpu, Health.UNHEALTHY)
    await pod.ends(1)
    await pod.is_in_phase("Failed")
    next_pod = await node.running_pod(another.request())  # its allocation is before the last sync of the ended pod
    await gpu.becomes(Health.HEALTHY)
    await other.becomes(Health.UNHEALTHY)
    await next_pod.shows(other, Health.UNHEALTHY)
    await other.becomes(Health.HEALTHY)
    await next_pod.shows(other, Health.HEALTHY)
    with node.judging("TERM-02", "the device plugin's last health is kept"):
        pod.still_shows(gpu, Health.UNHEALTHY)


@scenario("STATUS-08")
async def test_after_rapid_changes_in_a_device_plugins_list_the_status_shows_the_latest_health(node: Node) -> None:
    _, pod, gpu = await node.pod_with_a_plugin_gpu()
    await pod.shows(gpu, Health.HEALTHY)
    for number in range(1, 102):
        await gpu.becomes((Health.HEALTHY, Health.UNHEALTHY)[number % 2])
    await node.kubelet_catches_up()
    await pod.shows(gpu, Health.UNHEALTHY)


@scenario("EVENT-01")
async def test_a_change_in_a_device_plugins_list_creates_a_pod_event(node: Node) -> None:
    _, pod, gpu = await node.pod_with_a_plugin_gpu()
    await pod.shows(gpu, Health.HEALTHY)
    await node.events_arrive()
    before = pod.events()
    await gpu.becomes(Health.UNHEALTHY)
    await pod.shows(gpu, Health.UNHEALTHY)
    await node.events_arrive()
    with node.judging("EVENT-01", "an event reports that the listed device is unhealthy"):
        pod.has_event(gpu, Health.UNHEALTHY, before)


@scenario("DP-05")
async def test_a_device_shows_unknown_after_an_empty_list(node: Node) -> None:
    _, pod, gpu = await node.pod_with_a_plugin_gpu()
    await gpu.becomes(Health.UNHEALTHY)
    await pod.shows(gpu, Health.UNHEALTHY)
    await gpu.is_removed()
    with node.judging("DP-05", "it shows as Unknown"):
        await pod.shows(gpu, Health.UNKNOWN, within="resync")


@scenario("TERM-02")
async def test_the_device_of_an_ended_pod_can_be_used_again(node: Node) -> None:
    plugin = await node.device_plugin()
    gpu = plugin.gpus[0]
    pod = await node.running_pod(plugin.request(), restart="Never")
    await gpu.becomes(Health.UNHEALTHY)
    await pod.shows(gpu, Health.UNHEALTHY)
    await gpu.becomes(Health.HEALTHY)
    await pod.shows(gpu, Health.HEALTHY)
    await pod.ends(0)
    await pod.is_in_phase("Succeeded")
    next_pod = await node.running_pod(plugin.request())
    await next_pod.shows(gpu, Health.HEALTHY)


@scenario("INIT-02", "DP-01")
async def test_a_sidecar_shows_the_device_of_a_device_plugin(node: Node) -> None:
    plugin = await node.device_plugin()
    pod = await node.running_pod(containers={"main": []}, sidecars={"side": [plugin.request()]})
    await plugin.gpus[0].becomes(Health.UNHEALTHY)
    with node.judging("INIT-02", "the sidecar shows it"):
        await pod["side"].shows(plugin.gpus[0], Health.UNHEALTHY)


@scenario("DP-03", "DP-01")
async def test_a_container_with_devices_of_two_plugins_shows_both(node: Node) -> None:
    plugins = [await node.device_plugin(), await node.device_plugin()]
    one, other = [plugin.gpus[0] for plugin in plugins]
    pod = await node.running_pod(*(plugin.request() for plugin in plugins))
    await pod.shows(one, Health.HEALTHY)
    await other.becomes(Health.UNHEALTHY)
    with node.judging("DP-01", "the device of the second plugin shows Unhealthy"):
        await pod.shows(other, Health.UNHEALTHY)
    with node.judging("DP-03", "the entry of the first plugin remains"):
        pod.still_shows(one, Health.HEALTHY)


@scenario("INIT-01", "INIT-02")
async def test_init_containers_and_sidecars_show_their_device_plugin_devices(node: Node) -> None:
    plugins = [await node.device_plugin(), await node.device_plugin()]
    [first, side] = [plugin.gpus[0] for plugin in plugins]
    pod = await node.pod(init={"first": [plugins[0].request()]}, sidecars={"side": [plugins[1].request()]})
    await pod["first"].is_in_state("running")
    await first.becomes(Health.UNHEALTHY)
    await side.becomes(Health.UNHEALTHY)
    with node.judging("INIT-01", "the init container shows it"):
        await pod["first"].shows(first, Health.UNHEALTHY)
    with node.judging("INIT-02", "the sidecar shows it"):
        await pod["side"].shows(side, Health.UNHEALTHY)
