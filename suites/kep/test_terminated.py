"""KEP-4680, Known Limitation: Device Health for Terminated Pods."""

from drahealth.fakes.cluster.pods import status_seen
from drahealth.proto.values import Health
from drahealth.suites.run.scenario import scenario
from drahealth.suites.story.node import Node
from drahealth.suites.story.workload import without_resources


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
    last, before = await pod.object(), len(pod.statuses())
    with node.judging("TERM-02", "the last health is kept"):
        pod.still_shows(gpu, Health.UNHEALTHY, message="before the end of the pod")
    await gpu.becomes(Health.HEALTHY, message="changed after the end of the pod")
    await next_pod.shows(gpu, Health.HEALTHY, message="changed after the end of the pod")
    await gpu.becomes(Health.UNHEALTHY, message="changed again after the end of the pod")
    await next_pod.shows(gpu, Health.UNHEALTHY, message="changed again after the end of the pod")
    with node.judging("TERM-01", "its status does not change"):
        shown, others = status_seen(last), pod.statuses()[before:]
        node.check(all(other == shown for other in others), f"{shown}", others)
        now, expected = without_resources(await pod.object()), without_resources(last)
        node.check(now == expected, f"the status {expected}", now)


@scenario("TERM-02", "INIT-01")
async def test_a_pod_whose_init_container_has_failed_keeps_the_last_health(node: Node) -> None:
    driver = await node.driver()
    gpu = driver.gpus[0]
    claim = await node.claim(driver)
    pod = await node.pod(claim["gpu"], init={"first": [claim["gpu"]]}, restart="Never")
    await pod["first"].is_in_state("running")
    await gpu.becomes(Health.UNHEALTHY, message="during initialization")
    with node.judging("INIT-01", "the init container shows it"):
        await pod["first"].shows(gpu, Health.UNHEALTHY, message="during initialization")
    await pod["first"].ends(1)
    await pod.is_cleaned_up("Failed")
    with node.judging("TERM-02", "the last health is kept"):
        pod["first"].still_shows(gpu, Health.UNHEALTHY, message="during initialization")


@scenario("STATUS-01", "TERM-02")
async def test_a_container_that_restarts_after_a_failure_shows_its_device_until_it_succeeds(node: Node) -> None:
    driver = await node.driver()
    gpu = driver.gpus[0]
    pod = await node.running_pod((await node.claim(driver))["gpu"], restart="OnFailure")
    await pod.ends(1)
    await pod["main"].is_in_state("running", restarts=1)
    await gpu.becomes(Health.UNHEALTHY, message="after the restart of the container")
    await pod.shows(gpu, Health.UNHEALTHY, message="after the restart of the container")
    await pod.ends(0)
    await pod.is_cleaned_up("Succeeded")
    with node.judging("TERM-02", "the last health is kept"):
        pod.still_shows(gpu, Health.UNHEALTHY, message="after the restart of the container")


@scenario("STATUS-01")
async def test_a_container_still_shows_its_device_after_another_container_has_ended(node: Node) -> None:
    one, two = await node.driver(), await node.driver()
    uses = {"main": [(await node.claim(one))["gpu"]], "other": [(await node.claim(two))["gpu"]]}
    pod = await node.pod(containers=uses, restart="Never")
    await pod.is_running()
    await pod["main"].ends(0)
    await pod["main"].is_in_state("terminated")
    await two.gpus[0].becomes(Health.UNHEALTHY, message="after the end of a container")
    with node.judging("STATUS-01", "the container that runs shows it"):
        await pod["other"].shows(two.gpus[0], Health.UNHEALTHY, message="after the end of a container")
    await node.kubelet_catches_up()
    with node.judging("STATUS-01", "the container keeps running"):
        await pod["other"].is_in_state("running")
