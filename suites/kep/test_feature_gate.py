"""KEP-4680, Test Plan: Feature Gate Behavior, and Feature Enablement and Rollback."""

from drahealth.proto.values import Health
from drahealth.suites.run.scenario import scenario
from drahealth.suites.story.hardware import DevicePlugin, Driver
from drahealth.suites.story.node import Node
from drahealth.suites.story.workload import Pod, field_names, without_resources


@scenario("GATE-01", counterpart_of=("kep/e2e-gate-off", "e2e_node/gate-disabled"))
async def test_with_the_gate_off_the_field_is_not_populated(node: Node) -> None:
    await node.set_gates(on=False)
    driver, pod, gpu = await node.pod_with_a_gpu()
    await gpu.becomes(Health.UNHEALTHY)
    after = await node.running_pod(await node.claim(await node.driver()))
    await after.shows_no_health()
    await pod.shows_no_health()
    state = await driver.control.state()
    node.check(state.streams_opened == 0, "no health stream is opened", state)


@scenario("GATE-02", "GATE-03", "GATE-07", counterpart_of=("kep/e2e-gate-turned-off", "alpha2/e2e-gate-off"))
async def test_disabling_the_gate_removes_the_field_and_keeps_the_workload_running(node: Node) -> None:
    _, pod, gpu = await node.pod_with_a_gpu()
    await gpu.becomes(Health.UNHEALTHY, message="before")
    await pod.shows(gpu, Health.UNHEALTHY, message="before")
    without_devices = await node.running_pod(limits={"cpu": "10m", "memory": "16Mi"})
    await without_devices.shows_no_health("push")
    await node.events_arrive()
    with_gate = field_names(without_resources(await without_devices.object()))
    await node.set_gates(on=False)
    await pod.shows_no_health()
    with node.judging("GATE-03", "the workload keeps running"):
        await pod.is_running()
        node.check(pod.has_never_restarted(), "no container was restarted", pod)
        node.check(without_devices.has_never_restarted(), "no container was restarted", without_devices)
    with node.judging("GATE-07", "a pod without devices has the same status"):
        without_gate = field_names(without_resources(await without_devices.object()))
        node.check(with_gate == without_gate, "the same fields", sorted(with_gate ^ without_gate))


@scenario("GATE-04", "GATE-03", counterpart_of=("kep/e2e-gate-on-again", "alpha2/e2e-gate-on"))
async def test_enabling_the_gate_again_resumes_with_the_current_health(node: Node) -> None:
    _, pod, gpu = await node.pod_with_a_gpu()
    await pod.shows(gpu, Health.HEALTHY)
    await node.set_gates(on=False)
    await pod.shows_no_health()
    await gpu.becomes(Health.UNHEALTHY, message="while the gate was off")
    await node.set_gates(on=True)
    await pod.shows(gpu, Health.UNHEALTHY, message="while the gate was off", within="restart")
    with node.judging("GATE-03", "the workload keeps running"):
        await pod.is_running()
        node.check(pod.has_never_restarted(), "no container was restarted", pod)


@scenario("GATE-05", "GATE-04")
async def test_with_the_gate_off_in_the_api_server_alone_the_field_is_not_served(node: Node) -> None:
    _, pod, gpu = await node.pod_with_a_gpu()
    await pod.shows(gpu, Health.HEALTHY)
    await node.set_gates(api_server=False, kubelet=True)
    _, after, _ = await node.pod_with_a_gpu()
    await after.shows_no_health()
    with node.judging("GATE-05", "the API server does not serve stored health"):
        await pod.shows_no_health("push")
    await gpu.becomes(Health.UNHEALTHY, message="while the gate was off in the API server")
    await node.set_gates(api_server=True, kubelet=True)
    await pod.shows(gpu, Health.UNHEALTHY, message="while the gate was off in the API server", within="restart")


@scenario("GATE-06", "GATE-04", "GATE-03")
async def test_with_the_gate_off_in_the_kubelet_alone_the_field_is_not_populated(node: Node) -> None:
    _, pod, gpu = await node.pod_with_a_gpu()
    await pod.shows(gpu, Health.HEALTHY)
    await node.set_gates(api_server=True, kubelet=False)
    driver, after, _ = await node.pod_with_a_gpu()
    await after.shows_no_health()
    await pod.shows_no_health()
    state = await driver.control.state()
    node.check(state.streams_opened == 0, "no health stream is opened", state)
    with node.judging("GATE-03", "a pod with a claim can be deleted"):
        await after.is_deleted()
        await after.is_gone()
    await node.set_gates(api_server=True, kubelet=True)
    await pod.shows(gpu, Health.HEALTHY, within="restart")


@scenario("GATE-06", "GATE-04")
async def test_with_the_gate_off_in_the_kubelet_no_part_of_a_status_has_the_field(node: Node) -> None:
    driver, plugin = await node.driver(devices=8), await node.device_plugin(devices=2)
    earlier = await _pod_with_every_part(node, driver, plugin)
    [gpu] = await earlier.devices_of(plugin)
    await node.set_gates(api_server=True, kubelet=False)
    pod = await _pod_with_every_part(node, driver, plugin)
    for device in driver.gpus:
        await device.becomes(Health.UNHEALTHY, message="while the gate was off")
    await gpu.becomes(Health.UNHEALTHY)
    await node.kubelet_catches_up()
    await pod.shows_no_health("push")
    with node.judging("GATE-06", "earlier values are removed"):
        await earlier.shows_no_health()
    await node.set_gates(api_server=True, kubelet=True)
    with node.judging("GATE-04", "the device plugin's health shows again"):
        await earlier.shows(gpu, Health.UNHEALTHY, within="restart")


@scenario("GATE-05")
async def test_with_the_gate_off_in_the_api_server_no_part_of_a_status_has_the_field(node: Node) -> None:
    driver, plugin = await node.driver(devices=4), await node.device_plugin()
    pod = await _pod_with_every_part(node, driver, plugin)
    await pod.shows(plugin.gpus[0], Health.HEALTHY)
    await node.set_gates(api_server=False, kubelet=True)
    with node.judging("GATE-05", "the API server does not serve stored health"):
        await pod.shows_no_health()


@scenario("GATE-02", "GATE-04", "GATE-03")
async def test_the_gate_also_applies_to_device_plugins(node: Node) -> None:
    _, pod, gpu = await node.pod_with_a_plugin_gpu()
    await gpu.becomes(Health.UNHEALTHY)
    await pod.shows(gpu, Health.UNHEALTHY)
    await node.set_gates(on=False)
    await pod.shows_no_health()
    await gpu.becomes(Health.HEALTHY)  # the API server can have the health from before
    await node.set_gates(on=True)
    with node.judging("GATE-04", "the current health shows again"):
        await pod.shows(gpu, Health.HEALTHY, within="restart")
    with node.judging("GATE-03", "the workload keeps running"):
        node.check(pod.has_never_restarted(), "no container was restarted", pod)


@scenario("GATE-08", "GATE-03")
async def test_without_dra_the_devices_of_device_plugins_show_their_health(node: Node) -> None:
    _, pod, gpu = await node.pod_with_a_plugin_gpu()
    await pod.shows(gpu, Health.HEALTHY)
    driver = await node.new_driver()
    await node.set_gates(dra=False)
    await gpu.becomes(Health.UNHEALTHY)
    with node.judging("GATE-08", "the device of the device plugin shows its health"):
        await pod.shows(gpu, Health.UNHEALTHY, within="restart")
    with node.judging("GATE-08", "a DRA plugin is rejected with a reason"):
        node.check(bool(await driver.starts_in_vain()), "an error text", "an empty error")
    with node.judging("GATE-03", "the workload keeps running"):
        node.check(pod.has_never_restarted(), "no container was restarted", pod)


@scenario("GATE-09", "GATE-03", "GATE-04")
async def test_without_the_gate_of_messages_a_status_shows_health_but_no_messages(node: Node) -> None:
    _, pod, gpu = await node.pod_with_a_gpu()
    await gpu.becomes(Health.UNHEALTHY, message="while the gate was on")
    await pod.shows(gpu, Health.UNHEALTHY, message="while the gate was on")
    await node.set_gates(messages=False)
    with node.judging("GATE-09", "the message is removed, and the health stays"):
        await pod.shows(gpu, Health.UNHEALTHY, message="", within="restart")
    await gpu.becomes(Health.HEALTHY, message="while the gate was off")
    with node.judging("GATE-09", "a change of health shows without its message"):
        await pod.shows(gpu, Health.HEALTHY, message="")
    await node.set_gates(on=True)
    with node.judging("GATE-04", "the message shows again"):
        await pod.shows(gpu, Health.HEALTHY, message="while the gate was off", within="restart")
    with node.judging("GATE-03", "the workload keeps running"):
        node.check(pod.has_never_restarted(), "no container was restarted", pod)


async def _pod_with_every_part(node: Node, driver: Driver, plugin: DevicePlugin) -> Pod:
    """A running pod with devices in a container, an init container, a sidecar and in no container."""
    uses = [(await node.claim(driver))["gpu"] for _ in range(3)]
    pod = await node.pod(
        containers={"main": [uses[0], plugin.request()]},
        init={"init": [uses[1]]},
        sidecars={"sidecar": [uses[2]]},
        unused=[await node.claim(driver)],
    )
    await pod["init"].is_in_state("running")
    await pod["init"].ends()
    await pod.is_running()
    return pod
