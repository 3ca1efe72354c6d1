"""KEP-4680, Known Limitation: Device Health for Terminated Pods."""

from drahealth.proto.values import Health
from drahealth.suites.run.scenario import scenario
from drahealth.suites.story.node import Node


@scenario("TERM-01", "TERM-02", counterpart_of=("alpha2/e2e-failed-pod",))
async def test_the_status_of_a_terminated_pod_does_not_change(node: Node) -> None:
    driver = await node.driver()
    gpu = driver.gpus[0]
    claim = await node.claim(driver)
    pod = await node.running_pod(claim["gpu"], restart="Never")
    await gpu.becomes(Health.UNHEALTHY, message="before the end of the pod")
    await pod.shows(gpu, Health.UNHEALTHY, message="before the end of the pod")
    await pod.ends(1)
    await pod.is_cleaned_up("Failed")
    next_pod = await node.running_pod((await node.claim(driver))["gpu"])
    last = await pod.version()
    with node.judging("TERM-02", "the last health is kept"):
        pod.still_shows(gpu, Health.UNHEALTHY, message="before the end of the pod")
    await gpu.becomes(Health.HEALTHY, message="changed after the end of the pod")
    await next_pod.shows(gpu, Health.HEALTHY, message="changed after the end of the pod")
    await gpu.becomes(Health.UNHEALTHY, message="changed again after the end of the pod")
    await next_pod.shows(gpu, Health.UNHEALTHY, message="changed again after the end of the pod")
    with node.judging("TERM-01", "its status does not change"):
        node.check(await pod.version() == last, f"resourceVersion {last}", pod)
