"""KEP-4680, Goals: device health in Pod Status and events."""

from drahealth.proto.values import Health
from drahealth.suites.scenario import scenario
from drahealth.suites.story.node import Node


@scenario("EVENT-01", "EVENT-02")
async def test_an_event_on_the_pod_tells_of_a_change_of_health_and_of_nothing_else(node: Node) -> None:
    _, pod, gpu = await node.pod_with_a_gpu()
    await pod.shows(gpu, Health.HEALTHY)
    await gpu.becomes(Health.UNHEALTHY, message="GPU has fallen off the bus")
    await pod.shows(gpu, Health.UNHEALTHY, message="GPU has fallen off the bus")
    await node.events_arrive()
    with node.judging("EVENT-01", "an event tells that it is unhealthy"):
        pod.has_event(gpu, Health.UNHEALTHY)
    told = pod.events(gpu)
    await gpu.driver.control.report([gpu.reading(Health.UNHEALTHY, "GPU has fallen off the bus")])
    await gpu.becomes(Health.UNHEALTHY, message="GPU has fallen off the bus", timeout=600)
    await node.events_arrive()
    with node.judging("EVENT-02", "a heartbeat and another timeout are no news"):
        node.check(pod.events(gpu) == told, f"no other events than {told}", pod.events(gpu))
    await gpu.becomes(Health.HEALTHY)
    await pod.shows(gpu, Health.HEALTHY, message="")
    await node.events_arrive()
    with node.judging("EVENT-01", "an event tells that it is healthy again"):
        pod.has_event(gpu, Health.HEALTHY)
