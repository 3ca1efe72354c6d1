"""KEP-4680, Device Health Timeout Configuration: a device without reports."""

from drahealth.proto.values import Health
from drahealth.suites.run.scenario import scenario
from drahealth.suites.story.node import Node


@scenario("TIMEOUT-01", counterpart_of=("kep/cache-timeout",))
async def test_a_device_not_reported_within_its_timeout_shows_unknown(node: Node) -> None:
    driver, pod, gpu = await node.pod_with_a_gpu()
    await driver.control.stream_skew(3600)  # the times in its reports are an hour ahead, and do not count
    await gpu.becomes(Health.UNHEALTHY, message="the last report", timeout=2)
    await pod.shows(gpu, Health.UNHEALTHY, message="the last report")
    await driver.is_silenced()
    await node.advance_time(2.1)
    with node.judging("TIMEOUT-01", "it shows as Unknown"):
        await pod.shows(gpu, Health.UNKNOWN, message="", within="resync")
    await driver.control.stream_skew(-3600)
    await driver.resumes()
    await gpu.becomes(Health.HEALTHY, timeout=60)
    with node.judging("TIMEOUT-01", "a report with an earlier time counts"):
        await pod.shows(gpu, Health.HEALTHY)


@scenario("TIMEOUT-02")
async def test_each_device_has_its_own_timeout(node: Node) -> None:
    driver = await node.driver(devices=2)
    quick, slow = driver.gpus
    pod = await node.running_pod((await node.claim(driver, gpu=2))["gpu"])
    await quick.becomes(Health.HEALTHY, timeout=2)
    await slow.becomes(Health.UNHEALTHY, message="with a long timeout", timeout=3600)
    await pod.shows(slow, Health.UNHEALTHY, message="with a long timeout")
    await driver.is_silenced()
    await node.advance_time(2.1)
    with node.judging("TIMEOUT-02", "the device with the shorter timeout shows as Unknown"):
        await pod.shows(quick, Health.UNKNOWN, within="resync")
    pod.still_shows(slow, Health.UNHEALTHY, message="with a long timeout")


@scenario("TIMEOUT-03")
async def test_a_device_without_a_timeout_expires_after_thirty_seconds(node: Node) -> None:
    driver = await node.driver(devices=3, heartbeat=0)
    silent, negative, other = driver.gpus
    pod = await node.running_pod((await node.claim(driver, gpu=3))["gpu"])
    await other.becomes(Health.HEALTHY, timeout=3600)
    await silent.becomes(Health.UNHEALTHY, message="the last report")
    await pod.shows(silent, Health.UNHEALTHY, message="the last report")  # now the stream is open
    await driver.control.report([negative.reading(Health.UNHEALTHY, "with a negative timeout", timeout=-1)])
    await pod.shows(negative, Health.UNHEALTHY, message="with a negative timeout")
    await node.advance_time(22)
    await driver.control.report([other.reading(Health.UNHEALTHY, "a report of the other device", timeout=3600)])
    await pod.shows(other, Health.UNHEALTHY)
    pod.still_shows(silent, Health.UNHEALTHY)
    with node.judging("TIMEOUT-03", "a negative timeout counts as no timeout"):
        pod.still_shows(negative, Health.UNHEALTHY)
    await node.advance_time(8.1)
    await driver.control.report([other.reading(Health.HEALTHY, "a later report", timeout=3600)])
    await pod.shows(other, Health.HEALTHY)
    pod.still_shows(silent, Health.UNKNOWN)
    pod.still_shows(negative, Health.UNKNOWN)


@scenario("TIMEOUT-04", "TIMEOUT-01")
async def test_a_device_reported_again_after_its_timeout_shows_its_health_at_once(node: Node) -> None:
    driver = await node.driver(devices=2)
    pod, other_pod = [await node.running_pod((await node.claim(driver))["gpu"]) for _ in range(2)]
    [gpu], [other] = await pod.gpus(), await other_pod.gpus()
    # In Kubernetes 1.34 each timeout is 30 s. This one and two resyncs must take less time.
    await gpu.becomes(Health.UNHEALTHY, message="unchanged", timeout=5)
    await pod.shows(gpu, Health.UNHEALTHY, message="unchanged")
    await driver.is_silenced()
    await node.advance_time(5.1)
    with node.judging("TIMEOUT-01", "it shows as Unknown"):
        await pod.shows(gpu, Health.UNKNOWN, message="", within="resync")
    await driver.control.report([gpu.reading(Health.UNHEALTHY, "unchanged", timeout=5)])
    for fence in (Health.UNHEALTHY, Health.HEALTHY):
        await driver.control.report([other.reading(fence, "a fence", timeout=600)])
        await other_pod.shows(other, fence, message="a fence")
    with node.judging("TIMEOUT-04", "the pod shows the recovery"):
        pod.still_shows(gpu, Health.UNHEALTHY, message="unchanged")
    await driver.resumes()
    await gpu.becomes(Health.HEALTHY, timeout=600)
    await pod.shows(gpu, Health.HEALTHY)
