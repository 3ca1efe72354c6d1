"""KEP-4680, Goals: device health in Pod Status and events."""

from drahealth.proto.values import Health
from drahealth.suites.run.scenario import scenario
from drahealth.suites.story.node import Node


@scenario("EVENT-01", "EVENT-02")
async def test_a_health_change_creates_a_pod_event_and_a_heartbeat_does_not(node: Node) -> None:
    _, pod, gpu = await node.pod_with_a_gpu()
    await pod.shows(gpu, Health.HEALTHY)
    await node.events_arrive()
    at_first = pod.events()
    await gpu.becomes(Health.UNHEALTHY, message="GPU has fallen off the bus")
    await pod.shows(gpu, Health.UNHEALTHY, message="GPU has fallen off the bus")
    await node.events_arrive()
    with node.judging("EVENT-01", "an event reports that it is unhealthy"):
        pod.has_event(gpu, Health.UNHEALTHY, at_first)
    before = pod.events(gpu)
    await gpu.driver.control.report([gpu.reading(Health.UNHEALTHY, "GPU has fallen off the bus")])
    await gpu.becomes(Health.UNHEALTHY, message="GPU has fallen off the bus", timeout=600)
    await gpu.becomes(Health.UNHEALTHY, message="GPU was reset", timeout=600)
    await pod.shows(gpu, Health.UNHEALTHY, message="GPU was reset")
    await node.events_arrive()
    with node.judging("EVENT-02", "without a change of the shown health there is no event"):
        node.check(pod.events(gpu) == before, f"no other events than {before}", pod.events(gpu))
    before = pod.events()
    await gpu.becomes(Health.HEALTHY)
    await pod.shows(gpu, Health.HEALTHY, message="")
    await node.events_arrive()
    with node.judging("EVENT-01", "an event reports that it is healthy again"):
        pod.has_event(gpu, Health.HEALTHY, before)
    before = pod.events()
    await gpu.becomes(Health.UNHEALTHY, message="GPU has fallen off the bus")
    await pod.shows(gpu, Health.UNHEALTHY, message="GPU has fallen off the bus")
    await node.events_arrive()
    with node.judging("EVENT-01", "an event reports that it is unhealthy"):
        pod.has_event(gpu, Health.UNHEALTHY, before)
