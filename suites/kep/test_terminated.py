"""KEP-4680, Known Limitation: Device Health for Terminated Pods."""

from drahealth.proto.values import Health
from drahealth.suites.scenario import scenario
from drahealth.suites.story.node import Node


@scenario("TERM-01", "TERM-02", counterpart_of=("alpha2/e2e-failed-pod",))
async def test_a_terminated_pod_is_left_alone(node: Node) -> None:
    driver = await node.driver()
    gpu = driver.gpus[0]
    claim = await node.claim(driver)
    pod = await node.running_pod(claim["gpu"], restart="Never")
    await gpu.becomes(Health.UNHEALTHY, message="the end is near")
    await pod.shows(gpu, Health.UNHEALTHY, message="the end is near")
    await pod.ends(1)
    await pod.is_cleaned_up("Failed")
    next_pod = await node.running_pod((await node.claim(driver))["gpu"])
    last = pod.status
    with node.judging("TERM-02", "the last health is kept"):
        pod.still_shows(gpu, Health.UNHEALTHY, message="the end is near")
    await gpu.becomes(Health.HEALTHY, message="too late")
    await next_pod.shows(gpu, Health.HEALTHY, message="too late")
    await gpu.becomes(Health.UNHEALTHY, message="much too late")
    await next_pod.shows(gpu, Health.UNHEALTHY, message="much too late")
    with node.judging("TERM-01", "its status is not touched"):
        node.check(pod.status_has_stayed(last), f"the status stays {last}", pod)
