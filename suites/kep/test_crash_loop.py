"""KEP-4680, Story 1 and Test Plan, Failure Scenarios: a container in a crash loop."""

from drahealth.proto.values import Health
from drahealth.suites.run.scenario import scenario
from drahealth.suites.story.node import Node
from drahealth.suites.story.workload import EXIT_AT_ONCE


@scenario("CRASH-01", counterpart_of=("kep/e2e-crash-loop", "alpha2/e2e-crash-loop"))
async def test_a_pod_in_crash_loop_back_off_shows_the_health_of_its_device(node: Node) -> None:
    driver = await node.driver()
    gpu = driver.gpus[0]
    pod = await node.pod((await node.claim(driver))["gpu"], command=EXIT_AT_ONCE)
    await pod.is_in_back_off()
    await gpu.becomes(Health.UNHEALTHY, message="context switch timed out")
    await pod.shows(gpu, Health.UNHEALTHY, message="context switch timed out")
    await pod.is_in_back_off()
    await gpu.becomes(Health.HEALTHY)
    await pod.shows(gpu, Health.HEALTHY, message="")
    await pod.is_in_back_off()


@scenario("CRASH-01")
async def test_a_pod_in_crash_loop_back_off_shows_a_device_plugins_health(node: Node) -> None:
    plugin = await node.device_plugin()
    gpu = plugin.gpus[0]
    pod = await node.pod(plugin.request(), command=EXIT_AT_ONCE)
    await pod.is_in_back_off()
    for health in (Health.UNHEALTHY, Health.HEALTHY):
        await gpu.becomes(health)
        await pod.shows(gpu, health)
        await pod.is_in_back_off()


@scenario("STATUS-01", needs=("restart-rules",))
async def test_a_container_that_a_restart_rule_restarts_shows_the_health_of_its_device(node: Node) -> None:
    driver = await node.driver()
    gpu = driver.gpus[0]
    pod = await node.running_pod((await node.claim(driver))["gpu"], restart="Never", restart_codes=(3,))
    await gpu.becomes(Health.UNHEALTHY, message="before the restart")
    await pod.shows(gpu, Health.UNHEALTHY, message="before the restart")
    await pod.ends(code=3)
    await pod.runs_again()
    await pod.shows(gpu, Health.UNHEALTHY, message="before the restart")
    await gpu.becomes(Health.UNHEALTHY, message="after the restart")
    await pod.shows(gpu, Health.UNHEALTHY, message="after the restart")
