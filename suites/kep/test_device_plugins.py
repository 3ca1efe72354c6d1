"""KEP-4680, Device Plugin implementation details: extended resources, and plugins that stop and restart."""

from drahealth.proto.values import Health
from drahealth.suites.run.scenario import scenario
from drahealth.suites.story.hardware import Gpu
from drahealth.suites.story.node import Node
from drahealth.suites.story.workload import Pod


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


@scenario("DP-08", "DP-03")
async def test_a_container_with_a_claim_and_an_extended_resource_shows_both(node: Node) -> None:
    driver, plugin = await node.driver(), await node.device_plugin()
    claim = await node.claim(driver)
    pod = await node.running_pod(claim["gpu"], plugin.request(), limits={"cpu": "10m", "memory": "16Mi"})
    claimed, allocated = driver.gpus[0], plugin.gpus[0]
    await claimed.becomes(Health.UNHEALTHY, message="the claimed device failed")
    await pod.shows(claimed, Health.UNHEALTHY, message="the claimed device failed")
    await pod.shows(allocated, Health.HEALTHY)
    await allocated.becomes(Health.UNHEALTHY)
    await pod.shows(allocated, Health.UNHEALTHY)
    with node.judging("DP-03", "there are no entries for cpu and memory"):
        await pod.shows_entries({claim["gpu"].entry: [claimed], plugin.resource: [allocated]})


@scenario("DP-09", counterpart_of=("TestDeviceHealthUpdateWithDuplicateDeviceIDs",))
async def test_devices_with_the_same_id_in_two_resources_keep_their_own_health(node: Node) -> None:
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


@scenario("TERM-02", "TERM-01", needs=("restart-kubelet",))
async def test_a_terminated_pod_keeps_the_health_of_its_device_plugin_device(node: Node) -> None:
    plugin, another = await node.device_plugin(), await node.device_plugin()
    gpu, other = plugin.gpus[0], another.gpus[0]
    pod = await node.running_pod(plugin.request(), restart="Never")
    await gpu.becomes(Health.UNHEALTHY)
    await pod.shows(gpu, Health.UNHEALTHY)
    await pod.ends(1)
    await pod.is_in_phase("Failed")
    next_pod = await node.running_pod(another.request())  # the kubelet looks for ended pods whose devices it can free
    await node.kubelet_restarts()  # a kubelet that starts builds the status of each pod again
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


@scenario("DP-10")
async def test_a_device_that_no_list_contains_shows_unknown_without_a_resync(node: Node) -> None:
    plugin, pod, gpu = await node.pod_with_a_plugin_gpu()
    await gpu.becomes(Health.UNHEALTHY)
    await pod.shows(gpu, Health.UNHEALTHY)
    await gpu.is_removed()
    with node.judging("DP-10", "a device shows as Unknown after an empty list"):
        await pod.shows(gpu, Health.UNKNOWN)
    await gpu.is_restored()
    await pod.shows(gpu, Health.UNHEALTHY)
    await plugin.stops()
    with node.judging("DP-10", "the devices of a plugin show as Unknown after it disconnected"):
        await pod.shows(gpu, Health.UNKNOWN)


@scenario("DP-11")
async def test_with_two_plugins_of_a_resource_the_newest_one_counts(node: Node) -> None:
    older, driver = await node.device_plugin(devices=3, preferred=("gpu-0",)), await node.driver()
    gpu, fence = older.gpus[0], driver.gpus[0]
    pod = await node.running_pod(older.request(), (await node.claim(driver))["gpu"])
    newer = await node.device_plugin(devices=3, resource=older.resource, instance="newer")
    await newer.gpu(gpu.name).becomes(Health.UNHEALTHY)
    with node.judging("DP-11", "the status follows the list of the newest plugin"):
        await pod.shows(gpu, Health.UNHEALTHY)
    [other] = await (await node.running_pod(newer.request())).devices_of(older)
    state = await newer.control.state()
    with node.judging("DP-11", "the newest plugin allocates"):
        node.check(state.allocated == ((other.name,),), f"the newest plugin has allocated {other}", state)
    await other.becomes(Health.UNHEALTHY)
    await _syncs(node, pod, fence, "after a list of the older plugin")
    with node.judging("DP-11", "a list of the older plugin changes nothing"):
        pod.still_shows(gpu, Health.UNHEALTHY)
    await newer.stops()
    with node.judging("DP-11", "the pod shows the older plugin's list after the end of the newest one"):
        await pod.shows(gpu, Health.HEALTHY)
    await newer.is_silenced()
    await newer.starts()
    await older.stops()
    await _syncs(node, pod, fence, "after the end of the older plugin")
    with node.judging("DP-11", "the end of the older plugin changes nothing"):
        pod.still_shows(gpu, Health.HEALTHY)
    await newer.resumes()
    with node.judging("DP-11", "the pod shows the newest plugin's list after the end of the older one"):
        await pod.shows(gpu, Health.UNHEALTHY)


@scenario("DP-04", "DP-07")
async def test_devices_show_unknown_after_their_list_ended_without_an_error(node: Node) -> None:
    plugin, pod, gpu = await node.pod_with_a_plugin_gpu()
    await gpu.becomes(Health.UNHEALTHY)
    await pod.shows(gpu, Health.UNHEALTHY)
    await plugin.list_ends()
    with node.judging("DP-04", "they show as Unknown"):
        await pod.shows(gpu, Health.UNKNOWN, within="resync")
    await plugin.registers_again()
    with node.judging("DP-07", "the plugin is watched again"):
        await pod.shows(gpu, Health.UNHEALTHY)
        await gpu.becomes(Health.HEALTHY)
        await pod.shows(gpu, Health.HEALTHY)


@scenario("DP-07", needs=("restart-kubelet",))
async def test_the_devices_of_pods_that_are_gone_or_ended_can_be_used_after_a_kubelet_restart(node: Node) -> None:
    plugin = await node.device_plugin(devices=3)
    running = await node.running_pod(plugin.request())
    [gpu] = await running.devices_of(plugin)
    gone = await node.running_pod(plugin.request())
    ended = await node.running_pod(plugin.request(), restart="Never")
    await ended.ends(0)
    await ended.is_in_phase("Succeeded")
    await gone.is_deleted()
    await gone.is_gone()
    await node.kubelet_restarts()
    await gpu.becomes(Health.UNHEALTHY)
    await running.shows(gpu, Health.UNHEALTHY, within="restart")
    await gpu.becomes(Health.HEALTHY)
    await running.shows(gpu, Health.HEALTHY)
    pod = await node.running_pod(plugin.request(2))
    for other in set(plugin.gpus) - {gpu}:
        await pod.shows(other, Health.HEALTHY)


@scenario("DP-12", needs=("stop-kubelet", "control-without-kubelet"))
async def test_a_pod_does_not_run_without_its_devices_after_a_kubelet_restart(node: Node) -> None:
    plugin = await node.device_plugin(devices=2)
    first = await node.running_pod(plugin.request())  # the scheduler now knows the resource
    await first.is_deleted()
    await first.is_gone()
    await node.kubelet_stops()
    await plugin.stops()
    pod = await node.pod(plugin.request())
    await pod.is_scheduled()
    await node.kubelet_starts()
    await node.kubelet_catches_up()
    with node.judging("DP-12", "the pod does not run while its device plugin is absent"):
        node.check(not pod.has_run(), "no container of the pod has run", pod)
    await pod.is_deleted(grace=0)  # a kubelet takes 10 s to delete a pod that it has rejected
    await plugin.starts()
    later = await node.running_pod(plugin.request())
    with node.judging("DP-12", "a pod runs with its device after the plugin has registered"):
        await later.has_devices(1)


@scenario("STATUS-13")
async def test_the_devices_of_a_device_plugin_keep_their_order_between_status_updates(node: Node) -> None:
    plugin = await node.device_plugin(devices=8)
    pod, gpu = await node.running_pod(plugin.request(8)), plugin.gpus[0]
    await pod.shows(gpu, Health.HEALTHY)
    for number in range(6):
        health = (Health.UNHEALTHY, Health.HEALTHY)[number % 2]
        await gpu.becomes(health)
        await pod.shows(gpu, health)
    with node.judging("STATUS-13", "the order of devices does not change"):
        orders = pod.device_orders(plugin.resource)
        node.check(len(orders) == 1, "the same order of devices in each status", orders)


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


async def _syncs(node: Node, pod: Pod, fence: Gpu, message: str) -> None:
    """Wait until the pod shows a change of its claimed device, so that it was synced after all that is before."""
    await node.kubelet_catches_up()
    await fence.becomes(Health.UNHEALTHY, message=message)
    await pod.shows(fence, Health.UNHEALTHY, message=message)
