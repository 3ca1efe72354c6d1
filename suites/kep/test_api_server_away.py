"""KEP-4680, Troubleshooting: the API server is away while health changes, and back."""

from drahealth.proto.values import Health
from drahealth.suites.scenario import scenario
from drahealth.suites.story.node import Node


@scenario("AWAY-01")
async def test_health_that_changes_while_the_api_server_is_away_shows_once_it_is_back(node: Node) -> None:
    _, pod, gpu = await node.pod_with_a_gpu()
    await pod.shows(gpu, Health.HEALTHY)
    await node.api_server_stops()
    for health in (Health.UNHEALTHY, Health.UNKNOWN, Health.UNHEALTHY):
        await gpu.becomes(health, message=f"{health} while nobody could be told")
    await gpu.driver.has_reported(gpu, Health.UNKNOWN)
    await node.advance_time(1)
    await node.api_server_starts()
    await pod.shows(gpu, Health.UNHEALTHY, message="Unhealthy while nobody could be told", within="restart")


@scenario("AWAY-02")
async def test_a_driver_that_restarts_while_the_api_server_is_away_is_watched_and_publishes_again(node: Node) -> None:
    driver = await node.driver(devices=2)
    pod = await node.running_pod((await node.claim(driver))["gpu"])
    [gpu] = await pod.gpus()
    await pod.shows(gpu, Health.HEALTHY)
    await node.api_server_stops()
    await driver.crashes()
    await driver.starts()
    await gpu.becomes(Health.UNHEALTHY, message="after a restart that nobody saw")
    await node.api_server_starts()
    await pod.shows(gpu, Health.UNHEALTHY, message="after a restart that nobody saw", within="restart")
    later = await node.running_pod((await node.claim(driver))["gpu"])
    await later.shows((await later.gpus())[0], Health.HEALTHY)


@scenario("AWAY-03")
async def test_what_was_reported_while_the_api_server_was_away_survives_a_restart_right_after(node: Node) -> None:
    driver, pod, gpu = await node.pod_with_a_gpu(timeout=600)
    await pod.shows(gpu, Health.HEALTHY)
    await node.api_server_stops()
    await gpu.becomes(Health.UNHEALTHY, message="known to the kubelet alone")
    await driver.has_reported(gpu, Health.UNHEALTHY)
    await node.advance_time(1)
    await driver.is_silenced()
    await node.api_server_starts()
    await node.kubelet_restarts()
    await pod.shows(gpu, Health.UNHEALTHY, message="known to the kubelet alone", within="restart")
    await driver.resumes()
    await gpu.becomes(Health.HEALTHY)
    await pod.shows(gpu, Health.HEALTHY, message="", within="restart")
