"""KEP-4680, ContainerStatus.AllocatedResourcesStatus: in init containers and sidecars, not in ephemeral ones."""

from drahealth.proto.values import Health
from drahealth.suites.run.scenario import scenario
from drahealth.suites.story.node import Node


@scenario("INIT-01")
async def test_an_init_container_shows_the_health_of_its_device(node: Node) -> None:
    driver = await node.driver()
    gpu = driver.gpus[0]
    claim = await node.claim(driver)
    pod = await node.pod(claim["gpu"], init={"first": [claim["gpu"]]})
    await pod["first"].is_in_state("running")
    await gpu.becomes(Health.UNHEALTHY, message="failed during initialization")
    with node.judging("INIT-01", "the init container shows it"):
        await pod["first"].shows(gpu, Health.UNHEALTHY, message="failed during initialization")
        await pod["first"].shows_entries({f"claim:{claim.name}/gpu": [gpu]})
    await pod["first"].ends(0)
    await pod.is_running()
    await gpu.becomes(Health.HEALTHY, message="recovered")
    await pod.shows(gpu, Health.HEALTHY, message="recovered")


@scenario("INIT-01")
async def test_an_init_container_that_keeps_failing_shows_the_health_of_its_device(node: Node) -> None:
    driver = await node.driver()
    gpu = driver.gpus[0]
    claim = await node.claim(driver)
    pod = await node.pod(init={"first": [claim["gpu"]]})
    await pod["first"].fails_until_back_off()
    await gpu.becomes(Health.UNHEALTHY, message="the cause of the failure")
    with node.judging("INIT-01", "the init container shows it"):
        await pod["first"].shows(gpu, Health.UNHEALTHY, message="the cause of the failure")


@scenario("INIT-02")
async def test_a_sidecar_shows_the_health_of_its_device(node: Node) -> None:
    driver = await node.driver()
    gpu = driver.gpus[0]
    claim = await node.claim(driver)
    pod = await node.running_pod(claim["gpu"], sidecars={"side": [claim["gpu"]]})
    await gpu.becomes(Health.UNHEALTHY, message="before the restart of the sidecar")
    await pod.shows(gpu, Health.UNHEALTHY, message="before the restart of the sidecar")
    await pod["side"].ends(1)
    await pod["side"].is_in_state("running", restarts=1)
    with node.judging("INIT-02", "the sidecar shows it"):
        await pod["side"].shows(gpu, Health.UNHEALTHY, message="before the restart of the sidecar")
        await gpu.becomes(Health.HEALTHY, message="after the restart of the sidecar")
        await pod["side"].shows(gpu, Health.HEALTHY, message="after the restart of the sidecar")


@scenario("INIT-02", "CRASH-01")
async def test_a_sidecar_that_keeps_failing_shows_the_health_of_its_device(node: Node) -> None:
    driver = await node.driver()
    gpu = driver.gpus[0]
    claim = await node.claim(driver)
    pod = await node.running_pod(sidecars={"side": [claim["gpu"]]})
    await pod["side"].fails_until_back_off()
    await gpu.becomes(Health.UNHEALTHY, message="the cause of the failure")
    with node.judging("INIT-02", "the sidecar shows it"):
        await pod["side"].shows(gpu, Health.UNHEALTHY, message="the cause of the failure")


@scenario("TERM-02")
async def test_a_terminated_pod_keeps_the_health_in_init_containers_and_sidecars(node: Node) -> None:
    driver = await node.driver()
    gpu = driver.gpus[0]
    used = [(await node.claim(driver))["gpu"]]
    pod = await node.pod(*used, init={"first": used}, sidecars={"side": used}, restart="Never")
    await pod["first"].is_in_state("running")
    await pod["first"].ends(0)
    await pod.is_running()
    await gpu.becomes(Health.UNHEALTHY, message="before the end of the pod")
    await pod.shows(gpu, Health.UNHEALTHY, message="before the end of the pod")
    await pod.ends(0)
    await pod.is_cleaned_up("Succeeded")
    with node.judging("TERM-02", "init containers and sidecars keep the last health"):
        for container in ("first", "side", "main"):
            pod[container].still_shows(gpu, Health.UNHEALTHY, message="before the end of the pod")


@scenario("STATUS-01")
async def test_a_container_that_waits_for_an_init_container_shows_the_health_of_its_device(node: Node) -> None:
    driver = await node.driver()
    gpu = driver.gpus[0]
    pod = await node.pod((await node.claim(driver))["gpu"], init={"first": []})
    await pod["first"].is_in_state("running")
    await gpu.becomes(Health.UNHEALTHY, message="before the start of the container")
    await pod["main"].shows(gpu, Health.UNHEALTHY, message="before the start of the container")
    await pod["first"].ends(0)
    await pod.is_running()


@scenario("PODLEVEL-01")
async def test_a_claim_of_a_sidecar_does_not_show_in_the_status_of_the_pod_itself(node: Node) -> None:
    driver = await node.driver(devices=2)
    claim, own = await node.claim(driver), await node.claim(driver)
    pod = await node.running_pod(own["gpu"], sidecars={"side": [claim["gpu"]]})
    [gpu] = await node.allocated(own)
    await gpu.becomes(Health.UNHEALTHY, message="a fence")
    await pod.shows(gpu, Health.UNHEALTHY, message="a fence")
    with node.judging("PODLEVEL-01", "the pod's own field is empty"):
        await pod.own.shows_nothing()


@scenario("STATUS-01")
async def test_a_pod_with_an_ephemeral_container_shows_the_health_of_its_device(node: Node) -> None:
    _, pod, gpu = await node.pod_with_a_gpu()
    await pod.shows(gpu, Health.HEALTHY)
    await pod.gets_ephemeral_container("debug")
    for health in (Health.UNHEALTHY, Health.HEALTHY):
        await gpu.becomes(health, message=f"{health} beside the ephemeral container")
        await pod.shows(gpu, health, message=f"{health} beside the ephemeral container")
    found = (await pod.object())["status"].get("ephemeralContainerStatuses") or ()
    node.check(not any("allocatedResourcesStatus" in one for one in found), "no entries in ephemeral containers", found)
