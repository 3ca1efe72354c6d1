"""KEP-4680, Troubleshooting: health changes while the API server is down."""

from drahealth.proto.events import Unprepared
from drahealth.proto.values import Health
from drahealth.suites.run.scenario import scenario
from drahealth.suites.story.node import Node


@scenario("AWAY-01")
async def test_a_health_change_while_the_api_server_is_down_shows_when_it_is_back(node: Node) -> None:
    _, pod, gpu = await node.pod_with_a_gpu()
    await pod.shows(gpu, Health.HEALTHY)
    await node.api_server_stops()
    for health in (Health.UNHEALTHY, Health.UNKNOWN, Health.UNHEALTHY):
        await gpu.becomes(health, message=f"{health} while the API server was down")
    await gpu.driver.has_reported(gpu, Health.UNKNOWN)
    await node.advance_time(1)
    await node.api_server_starts()
    await pod.shows(gpu, Health.UNHEALTHY, message="Unhealthy while the API server was down", within="restart")


@scenario("EVENT-01", "TIMEOUT-01", needs=("stop-api-server", "control-without-api-server"))
async def test_a_change_creates_an_event_even_if_the_pod_ended_while_the_api_server_was_down(node: Node) -> None:
    driver = await node.driver()
    gpu, claim = driver.gpus[0], await node.claim(driver)
    pod = await node.running_pod(claim["gpu"], restart="Never")
    await gpu.becomes(Health.UNHEALTHY, message="the last report", timeout=5)
    await pod.shows(gpu, Health.UNHEALTHY, message="the last report")
    await node.events_arrive()
    before, uid = pod.events(), (await node.claims.object(claim))["metadata"]["uid"]
    await driver.is_silenced()
    await node.api_server_stops()
    await node.advance_time(5.1)
    await pod.ends(1)
    released = f"the kubelet unprepares the claim of pod {pod.name}"
    await node.until(lambda: uid in {e.claim_uid for e in node.history.of(Unprepared)}, "start", released, "no call")
    await node.api_server_starts()
    await pod.is_in_phase("Failed")
    await node.events_arrive(within="restart")  # the kubelet can wait before it watches Pods again
    with node.judging("EVENT-01", "an event reports the health that the final status shows"):
        pod.has_event(gpu, Health.UNKNOWN, before)


@scenario("AWAY-02")
async def test_a_driver_that_restarts_while_the_api_server_is_down_is_watched_and_publishes_again(node: Node) -> None:
    driver = await node.driver(devices=2)
    pod = await node.running_pod((await node.claim(driver))["gpu"])
    [gpu] = await pod.gpus()
    await pod.shows(gpu, Health.HEALTHY)
    await node.api_server_stops()
    await driver.crashes()
    await driver.starts()
    await gpu.becomes(Health.UNHEALTHY, message="after the restart of the driver")
    await node.api_server_starts()
    await pod.shows(gpu, Health.UNHEALTHY, message="after the restart of the driver", within="restart")
    later = await node.pod((await node.claim(driver))["gpu"])
    await later.is_running(within="restart")  # the kubelet can wait before it watches Pods again
    await later.shows((await later.gpus())[0], Health.HEALTHY)


@scenario("AWAY-03")
async def test_a_report_while_the_api_server_is_down_survives_a_kubelet_restart(node: Node) -> None:
    driver, pod, gpu = await node.pod_with_a_gpu(timeout=600)
    await pod.shows(gpu, Health.HEALTHY)
    await node.api_server_stops()
    await gpu.becomes(Health.UNHEALTHY, message="reported while the API server was down")
    await driver.has_reported(gpu, Health.UNHEALTHY)
    await node.advance_time(1)
    await driver.is_silenced()
    await node.api_server_starts()
    await node.kubelet_restarts()
    await pod.shows(gpu, Health.UNHEALTHY, message="reported while the API server was down", within="restart")
    await driver.resumes()
    await gpu.becomes(Health.HEALTHY)
    await pod.shows(gpu, Health.HEALTHY, message="", within="restart")


@scenario("ABSENT-03", needs=("stop-api-server", "control-without-api-server"))
async def test_a_pod_whose_claim_is_unprepared_while_the_api_server_is_down_is_deleted_afterwards(node: Node) -> None:
    driver, pod, gpu = await node.pod_with_a_gpu()
    await pod.shows(gpu, Health.HEALTHY)
    [claim] = pod.uses.claims
    uid = (await node.claims.object(claim))["metadata"]["uid"]
    await driver.control.fail_claims("unprepare", "the device is still in use")
    await pod.is_deleted()
    await node.kubelet_catches_up()
    await node.api_server_stops()
    await driver.control.fail_claims("unprepare")
    unprepared = f"the kubelet unprepares the claim of pod {pod.name}"
    await node.until(lambda: uid in {e.claim_uid for e in node.history.of(Unprepared)}, "start", unprepared, "no call")
    await node.advance_time(1)
    await node.api_server_starts()
    with node.judging("ABSENT-03", "the pod is deleted after its claim is unprepared"):
        await pod.is_gone()
