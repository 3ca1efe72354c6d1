"""KEP-4680, Goals: device health in events, for every kind of container and for several devices."""

from collections.abc import Sequence

from drahealth.proto.events import EventSeen
from drahealth.proto.values import Health
from drahealth.suites.run.scenario import scenario
from drahealth.suites.story.hardware import Gpu, PluginGpu
from drahealth.suites.story.node import Node
from drahealth.suites.story.workload import Pod


@scenario("EVENT-01", "EVENT-02")
async def test_each_of_several_devices_that_change_together_creates_an_event(node: Node) -> None:
    driver = await node.driver(devices=("left", "right"), heartbeat=0)
    claim = await node.claim(driver, gpu=2)
    pod = await node.running_pod(containers={"first": [claim["gpu"]], "second": [claim["gpu"]]})
    for gpu in driver.gpus:
        await pod.shows(gpu, Health.HEALTHY)
    before = await _events(node, pod)
    with node.judging("EVENT-02", "the first status creates no event for a Healthy device"):
        healthy = [
            gpu for gpu in driver.gpus if not pod.has_shown(gpu, Health.UNKNOWN)
        ]  # Unknown, then Healthy changes
        named = [event for event in before if any(gpu.name in event.message for gpu in healthy)]
        node.check(not named, "no event about its devices", named)
    await driver.control.report([gpu.reading(Health.UNHEALTHY, "the link between both failed") for gpu in driver.gpus])
    for gpu in driver.gpus:
        await pod.shows(gpu, Health.UNHEALTHY, message="the link between both failed")
    after = await _events(node, pod)
    with node.judging("EVENT-01", "an event reports that it is unhealthy"):
        for gpu in driver.gpus:
            _reports_once(node, after, before, gpu, Health.UNHEALTHY)
    await driver.control.report([gpu.reading(Health.UNHEALTHY, "another text") for gpu in driver.gpus])
    for gpu in driver.gpus:
        await pod.shows(gpu, Health.UNHEALTHY, message="another text")
    with node.judging("EVENT-02", "a new message alone creates no event"):
        latest = await _events(node, pod)
        node.check(latest == after, f"no other events than {after}", latest)
    await driver.control.report([driver.gpus[0].reading(Health.UNKNOWN, "no answer")])
    await pod.shows(driver.gpus[0], Health.UNKNOWN, message="no answer")
    with node.judging("EVENT-01", "an event reports that it is unhealthy"):
        _reports_once(node, await _events(node, pod), latest, driver.gpus[0], Health.UNKNOWN)


@scenario("EVENT-01")
async def test_a_pod_that_starts_with_an_unhealthy_device_gets_an_event(node: Node) -> None:
    driver = await node.driver(devices=2, heartbeat=0)
    earlier = await node.running_pod((await node.claim(driver))["gpu"])
    [known] = await earlier.gpus()
    for each in driver.gpus:
        await each.becomes(Health.UNHEALTHY, message="of both devices", timeout=600)
    await earlier.shows(known, Health.UNHEALTHY, message="of both devices")
    pod = await node.running_pod((await node.claim(driver))["gpu"])
    [gpu] = await pod.gpus()
    await pod.shows(gpu, Health.UNHEALTHY, message="of both devices")
    with node.judging("EVENT-01", "an event reports that it is unhealthy"):
        _reports_once(node, await _events(node, pod), (), gpu, Health.UNHEALTHY)


@scenario("EVENT-01")
async def test_a_device_of_a_sidecar_creates_an_event(node: Node) -> None:
    driver = await node.driver()
    gpu = driver.gpus[0]
    pod = await node.running_pod(containers={"main": []}, sidecars={"side": [(await node.claim(driver))["gpu"]]})
    await driver.has_reported(gpu, Health.HEALTHY)
    before = await _events(node, pod)
    await gpu.becomes(Health.UNHEALTHY, message="of the sidecar")
    await node.kubelet_catches_up()
    with node.judging("EVENT-01", "an event reports that it is unhealthy"):
        _reports_once(node, await _events(node, pod), before, gpu, Health.UNHEALTHY)


@scenario("EVENT-01", needs=("kep-api",))
async def test_a_device_of_the_pod_itself_creates_an_event(node: Node) -> None:
    driver = await node.driver()
    gpu = driver.gpus[0]
    pod = await node.running_pod(unused=[await node.claim(driver)])
    await driver.has_reported(gpu, Health.HEALTHY)
    before = await _events(node, pod)
    await gpu.becomes(Health.UNHEALTHY, message="of no container")
    await node.kubelet_catches_up()
    with node.judging("EVENT-01", "an event reports that it is unhealthy"):
        _reports_once(node, await _events(node, pod), before, gpu, Health.UNHEALTHY)


@scenario("EVENT-01", "DP-03")
async def test_two_resources_of_one_container_have_an_entry_each_and_create_events(node: Node) -> None:
    one, two = await node.device_plugin(), await node.device_plugin()
    pod = await node.running_pod(one.request(), two.request())
    [mine], [other] = one.gpus, two.gpus
    await pod.shows(mine, Health.HEALTHY)
    before = await _events(node, pod)
    await mine.becomes(Health.UNHEALTHY)
    await pod.shows(mine, Health.UNHEALTHY)
    with node.judging("DP-03", "each resource has its entry"):
        await pod.shows_entries({one.resource: [mine], two.resource: [other]})
        pod.still_shows(other, Health.HEALTHY)
    with node.judging("EVENT-01", "an event reports that the listed device is unhealthy"):
        _reports_once(node, await _events(node, pod), before, mine, Health.UNHEALTHY)


@scenario("EVENT-02", needs=("restart-kubelet",))
async def test_a_kubelet_restart_creates_no_event_for_known_health(node: Node) -> None:
    driver = await node.driver(timeout=600)
    gpu = driver.gpus[0]
    pod = await node.running_pod((await node.claim(driver))["gpu"])
    await gpu.becomes(Health.UNHEALTHY, message="before the restart")
    await pod.shows(gpu, Health.UNHEALTHY, message="before the restart")
    before = [event for event in await _events(node, pod) if gpu.name in event.message]
    await node.advance_time(1)  # a kubelet may gather changes before it writes its checkpoint
    await node.kubelet_restarts()
    await node.kubelet_catches_up()
    after = [event for event in await _events(node, pod) if gpu.name in event.message]
    with node.judging("EVENT-02", "a restart creates no event"):
        node.check(after == before, f"no other events than {before}", after)


@scenario("EVENT-02", needs=("stop-api-server", "control-without-api-server"))
async def test_a_change_while_the_api_server_is_down_creates_at_most_one_event(node: Node) -> None:
    driver = await node.driver(heartbeat=0, timeout=600)
    gpu = driver.gpus[0]
    pod = await node.running_pod((await node.claim(driver))["gpu"])
    await pod.shows(gpu, Health.HEALTHY)
    before = await _events(node, pod)
    await node.api_server_stops()
    await gpu.becomes(Health.UNHEALTHY, message="while the API server was down")
    await driver.has_reported(gpu, Health.UNHEALTHY)
    await node.advance_time(3)  # the kubelet writes the status several times, in vain
    await node.api_server_starts()
    await pod.shows(gpu, Health.UNHEALTHY, message="while the API server was down", within="restart")
    new = [event for event in (await _events(node, pod))[len(before) :] if gpu.name in event.message]
    with node.judging("EVENT-02", "one change of health creates at most one event"):
        node.check([event.count for event in new] in ([], [1]), "at most one event about the device", new)


async def _events(node: Node, pod: Pod) -> Sequence[EventSeen]:
    """All events of the pod, after a fence."""
    await node.events_arrive()
    return pod.events()


def _reports_once(
    node: Node, after: Sequence[EventSeen], before: Sequence[EventSeen], gpu: Gpu | PluginGpu, health: Health
) -> None:
    """Check that one of the new events names the device and this health."""
    new = [event for event in after if event not in before and gpu.name in event.message]
    named = [event for event in new if str(health) in f"{event.reason} {event.message}"]
    node.check(len(named) == 1, f"one event that names {gpu} and {health}", new)
