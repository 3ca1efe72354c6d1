"""KEP-4680, Health Information Cache and WatchResourcesResponse: partial, very large and very frequent reports."""

from drahealth.proto.values import DeviceHealth, Health
from drahealth.suites.run.scenario import scenario
from drahealth.suites.story.node import Node


@scenario("CACHE-01", "CACHE-02")
async def test_a_device_missing_from_reports_keeps_its_health_until_its_timeout(node: Node) -> None:
    driver = await node.driver(devices=2)
    gpu, other = driver.gpus
    pod = await node.running_pod((await node.claim(driver, gpu=2))["gpu"])
    await gpu.becomes(Health.UNHEALTHY, message="missing from later reports", timeout=11)
    await pod.shows(gpu, Health.UNHEALTHY, message="missing from later reports")
    await driver.is_silenced()
    await node.advance_time(6)
    alone = other.reading(Health.UNHEALTHY, "the only device in this report", timeout=600)
    await driver.control.report([alone])  # the sync for it is the last one before the next report
    await pod.shows(other, Health.UNHEALTHY, message="the only device in this report")
    with node.judging("CACHE-01", "within its timeout it keeps its health"):
        pod.still_shows(gpu, Health.UNHEALTHY, message="missing from later reports")
    await node.advance_time(5.1)
    await driver.control.report([alone])
    with node.judging("CACHE-02", "after the next report it shows as Unknown"):
        await pod.shows(gpu, Health.UNKNOWN, message="")
    await driver.resumes()
    await gpu.becomes(Health.HEALTHY, timeout=600)
    await pod.shows(gpu, Health.HEALTHY)


@scenario("CACHE-03")
async def test_a_complete_report_of_thousands_of_devices_is_accepted(node: Node) -> None:
    _, pod, gpu = await node.pod_with_a_gpu()
    await pod.shows(gpu, Health.HEALTHY)
    message = "as long as a message may be: " + "m" * 970
    crowd = [DeviceHealth(gpu.id.pool, f"other-{number}", Health.HEALTHY, message) for number in range(5000)]
    with node.judging("CACHE-03", "the pod shows its device's health from the report"):
        await gpu.driver.control.report([*crowd, gpu.reading(Health.UNHEALTHY, "in a large report")])
        await pod.shows(gpu, Health.UNHEALTHY, message="in a large report")
    await node.advance_time(6)
    await gpu.becomes(Health.UNHEALTHY, message="in a small report")
    await pod.shows(gpu, Health.UNHEALTHY, message="in a small report", within="resync")


@scenario("STATUS-14")
async def test_a_change_is_not_lost_among_many_changes_of_another_device(node: Node) -> None:
    driver = await node.driver(devices=2)
    busy_pod, quiet_pod = [await node.running_pod((await node.claim(driver))["gpu"]) for _ in range(2)]
    [busy], [quiet] = await busy_pod.gpus(), await quiet_pod.gpus()
    flood = [busy.reading((Health.UNHEALTHY, Health.HEALTHY)[n % 2], f"change {n}") for n in range(1, 1001)]
    await driver.reports_in_a_row([*flood[:900], quiet.reading(Health.UNHEALTHY, "a single change"), *flood[900:]])
    with node.judging("STATUS-14", "the one change is shown"):
        await quiet_pod.shows(quiet, Health.UNHEALTHY, message="a single change", within="restart")
    await busy_pod.shows(busy, flood[-1].health, message=flood[-1].message, within="restart")


@scenario("CACHE-01")
async def test_a_report_of_other_devices_or_of_none_changes_nothing(node: Node) -> None:
    driver = await node.driver(devices=2)
    gpu, fence = driver.gpus
    pod = await node.running_pod((await node.claim(driver, gpu=2))["gpu"])
    await gpu.becomes(Health.UNHEALTHY, message="as reported", timeout=600)
    await pod.shows(gpu, Health.UNHEALTHY, message="as reported")
    before = await driver.control.state()
    await driver.control.report([])
    await driver.control.report([DeviceHealth("another-pool", gpu.name, Health.HEALTHY, "a device of another pool")])
    await driver.control.report([fence.reading(Health.UNHEALTHY, "a fence", timeout=600)])
    await pod.shows(fence, Health.UNHEALTHY, message="a fence")
    with node.judging("CACHE-01", "the device keeps its health"):
        pod.still_shows(gpu, Health.UNHEALTHY, message="as reported")
    state = await driver.control.state()
    with node.judging("CACHE-01", "the health stream continues"):
        node.check(state.streams_opened == before.streams_opened, "no other health stream", state)


@scenario("CACHE-02")
async def test_pods_are_notified_once_of_a_device_missing_from_reports(node: Node) -> None:
    driver, another, third = await node.driver(), await node.driver(), await node.driver()
    missing, witness, fence = driver.gpus[0], another.gpus[0], third.gpus[0]
    pod = await node.running_pod((await node.claim(driver))["gpu"], (await node.claim(another))["gpu"])
    other_pod = await node.running_pod((await node.claim(third))["gpu"])
    await missing.becomes(Health.UNHEALTHY, message="missing from later reports", timeout=2)
    await witness.becomes(Health.UNHEALTHY, message="Unknown at the next sync", timeout=5)
    await pod.shows(missing, Health.UNHEALTHY, message="missing from later reports")
    await pod.shows(witness, Health.UNHEALTHY, message="Unknown at the next sync")
    await driver.is_silenced()
    await another.is_silenced()
    await node.advance_time(2.1)
    await driver.control.report([])
    with node.judging("CACHE-02", "after the next report it shows as Unknown"):
        await pod.shows(missing, Health.UNKNOWN, message="")
    await node.advance_time(3)
    for number in range(2):
        await driver.control.report([])
        await fence.becomes(Health.UNHEALTHY, message=f"fence {number}")
        await other_pod.shows(fence, Health.UNHEALTHY, message=f"fence {number}")
    with node.judging("CACHE-02", "further reports notify nobody"):
        pod.still_shows(witness, Health.UNHEALTHY, message="Unknown at the next sync")
