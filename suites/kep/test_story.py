"""KEP-4680, User Stories, Story 1: a GPU fails, its pod shows it, and the replacement pod gets another GPU."""

from drahealth.proto.values import Health
from drahealth.suites.run.scenario import scenario
from drahealth.suites.story.node import Node


@scenario("STORY-01", "CRASH-01", needs=("taint-devices",))
async def test_a_pod_shows_its_failed_gpu_and_its_replacement_gets_another_gpu(node: Node) -> None:
    driver = await node.driver(devices=2)
    replicas = await node.replica_set((await node.claim(driver, template=True))["gpu"])
    pod = await replicas.next_pod()
    failing = await pod.gpu_of(driver)
    await failing.fails_with("xid/95")
    await pod["main"].fails_until_back_off()
    with node.judging("STORY-01", "the pod shows the failed device"):
        await pod.shows(failing, Health.UNHEALTHY, message=f"XID 95: {failing}: memory error, not contained")
    await failing.gets_taint("gpu.example.com/unhealthy", "NoSchedule")
    await pod.is_deleted()
    replacement = await replicas.next_pod()
    healthy = await replacement.gpu_of(driver)
    node.check(healthy != failing, f"the replacement has another device than {failing}", replacement)
    with node.judging("STORY-01", "the replacement shows the other device"):
        await replacement.shows(healthy, Health.HEALTHY, message="")


@scenario("STORY-01", "CRASH-01")
async def test_a_pod_shows_its_failed_gpu_of_a_device_plugin_and_its_replacement_gets_another(node: Node) -> None:
    plugin = await node.device_plugin(devices=3, preferred=("gpu-0",))
    replicas = await node.replica_set(plugin.request())
    pod = await replicas.next_pod()
    [failing] = await pod.devices_of(plugin)
    await failing.becomes(Health.UNHEALTHY)
    await pod["main"].fails_until_back_off()
    with node.judging("STORY-01", "the pod shows the failed device of the plugin"):
        await pod.shows(failing, Health.UNHEALTHY)
    await pod.is_deleted()
    replacement = await replicas.next_pod()
    [healthy] = await replacement.devices_of(plugin)
    node.check(healthy != failing, f"the replacement has another device than {failing}", replacement)
    with node.judging("STORY-01", "the replacement shows the other device of the plugin"):
        await replacement.shows(healthy, Health.HEALTHY)
    await pod.is_gone()  # its device is free now, and still Unhealthy
    [next_one] = await (await node.running_pod(plugin.request())).devices_of(plugin)
    with node.judging("STORY-01", "another pod has another device"):
        node.check(next_one != failing, f"another device than {failing}", next_one)


@scenario("STATUS-01", needs=("taint-devices",))
async def test_a_taint_of_a_device_does_not_change_its_health_in_the_pod_status(node: Node) -> None:
    _, pod, gpu = await node.pod_with_a_gpu()
    await pod.shows(gpu, Health.HEALTHY)
    await gpu.gets_taint("gpu.example.com/unhealthy", "NoSchedule")
    await node.kubelet_catches_up()
    pod.still_shows(gpu, Health.HEALTHY)
    await gpu.becomes(Health.UNHEALTHY, message="the driver reports it")
    await pod.shows(gpu, Health.UNHEALTHY, message="the driver reports it")
