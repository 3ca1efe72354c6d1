"""KEP-4680, Health Information Cache: health after a restart of the kubelet."""

from drahealth.proto.values import Health
from drahealth.suites.run.scenario import scenario
from drahealth.suites.story.node import Node


@scenario("PERSIST-01", "STREAM-02", counterpart_of=("kep/cache-persistence",))
async def test_health_survives_a_kubelet_restart(node: Node) -> None:
    driver = await node.driver(timeout=600)
    gpu = driver.gpus[0]
    claim = await node.claim(driver)
    pod = await node.running_pod(claim["gpu"])
    await gpu.becomes(Health.UNHEALTHY, message="before the restart")
    await pod.shows(gpu, Health.UNHEALTHY, message="before the restart")
    await driver.is_silenced()
    await node.advance_time(1)  # a kubelet may gather changes before it writes its checkpoint
    await node.kubelet_restarts()
    sharer = await node.pod(claim["gpu"])
    with node.judging("PERSIST-01", "a new pod shows the health from before the restart"):
        await sharer.is_running()
        await sharer.shows(gpu, Health.UNHEALTHY, message="before the restart")
    pod.still_shows(gpu, Health.UNHEALTHY, message="before the restart")
    await driver.resumes()
    await gpu.becomes(Health.HEALTHY)
    with node.judging("STREAM-02", "the plugin is watched again for both pods"):
        await pod.shows(gpu, Health.HEALTHY, within="restart")
        await sharer.shows(gpu, Health.HEALTHY)


@scenario("STREAM-02", "STATUS-01", needs=("restart-kubelet",))
async def test_a_pod_started_after_a_kubelet_restart_shows_its_device(node: Node) -> None:
    driver = await node.driver()
    gpu = driver.gpus[0]
    await node.kubelet_restarts()
    pod = await node.running_pod((await node.claim(driver))["gpu"])
    await pod.shows(gpu, Health.HEALTHY)
    await gpu.becomes(Health.UNHEALTHY, message="after the restart")
    await pod.shows(gpu, Health.UNHEALTHY, message="after the restart")


@scenario("PERSIST-02")
async def test_the_time_of_the_last_report_survives_a_kubelet_restart(node: Node) -> None:
    driver = await node.driver(devices=2, heartbeat=1, timeout=20)
    early = await node.running_pod((await node.claim(driver))["gpu"])
    await early.shows((await early.gpus())[0], Health.HEALTHY)
    for _ in range(2):  # together longer than the timeout, with heartbeats only
        await node.advance_time(12)
        await driver.reports_again()
    await driver.is_silenced()
    await node.advance_time(0.5)
    await node.kubelet_restarts()
    pod = await node.running_pod((await node.claim(driver))["gpu"])
    [gpu] = await pod.gpus()
    with node.judging("PERSIST-02", "it keeps its health"):
        await pod.shows(gpu, Health.HEALTHY)
    await driver.resumes()
    await gpu.becomes(Health.UNHEALTHY, message="after the restart")
    await pod.shows(gpu, Health.UNHEALTHY, message="after the restart")


@scenario("PERSIST-03")
async def test_the_timeout_of_each_device_survives_a_kubelet_restart(node: Node) -> None:
    driver = await node.driver(devices=3)
    brief, lasting, fence = driver.gpus
    pod = await node.running_pod((await node.claim(driver, gpu=3))["gpu"])
    await lasting.becomes(Health.UNHEALTHY, message="with a long timeout", timeout=3600)
    await brief.becomes(Health.UNHEALTHY, message="with a short timeout", timeout=3)
    await pod.shows(lasting, Health.UNHEALTHY, message="with a long timeout")
    await pod.shows(brief, Health.UNHEALTHY, message="with a short timeout")
    await driver.is_silenced()
    await node.advance_time(1)
    await node.kubelet_restarts()
    await node.advance_time(2.1)
    with node.judging("PERSIST-03", "the device with the short timeout reads Unknown"):
        await pod.shows(brief, Health.UNKNOWN, within="resync")
    await node.advance_time(19)
    await driver.is_watched()
    await driver.control.report([fence.reading(Health.UNHEALTHY, "a fence", timeout=600)])
    await pod.shows(fence, Health.UNHEALTHY, message="a fence")
    with node.judging("PERSIST-03", "the device with the long timeout keeps its health"):
        pod.still_shows(lasting, Health.UNHEALTHY, message="with a long timeout")


@scenario("PERSIST-01")
async def test_the_health_of_several_drivers_survives_a_kubelet_restart(node: Node) -> None:
    drivers = [await node.driver(timeout=600) for _ in range(3)]
    first, second, fence = [driver.gpus[0] for driver in drivers]
    pod = await node.running_pod(*[(await node.claim(driver))["gpu"] for driver in drivers])
    for gpu in (first, second):
        await gpu.becomes(Health.UNHEALTHY, message=f"{gpu.driver} before the restart")
        await pod.shows(gpu, Health.UNHEALTHY, message=f"{gpu.driver} before the restart")
        await gpu.driver.is_silenced()
    await node.advance_time(1)
    await node.kubelet_restarts()
    for gpu in (first, second):
        await gpu.driver.has_new_stream()
    await fence.becomes(Health.UNHEALTHY, message="a fence")
    await pod.shows(fence, Health.UNHEALTHY, message="a fence", within="restart")
    with node.judging("PERSIST-01", "the health of each driver is known"):
        for gpu in (first, second):
            pod.still_shows(gpu, Health.UNHEALTHY, message=f"{gpu.driver} before the restart")


@scenario("PERSIST-01", "STREAM-01")
async def test_a_device_is_still_unknown_after_the_end_of_its_stream_and_a_kubelet_restart(node: Node) -> None:
    driver, another = await node.driver(timeout=600), await node.driver()
    gpu, fence = driver.gpus[0], another.gpus[0]
    pod = await node.running_pod((await node.claim(driver))["gpu"], (await node.claim(another))["gpu"])
    await gpu.becomes(Health.UNHEALTHY, message="before the end of the stream")
    await pod.shows(gpu, Health.UNHEALTHY, message="before the end of the stream")
    await node.advance_time(1)  # the checkpoint has this health before the stream ends
    await driver.is_silenced()
    await driver.stream_ends("OK")
    with node.judging("STREAM-01", "it shows as Unknown"):
        await pod.shows(gpu, Health.UNKNOWN, message="", within="resync")
    await node.advance_time(1)
    await node.kubelet_restarts()
    await fence.becomes(Health.UNHEALTHY, message="a fence")
    await pod.shows(fence, Health.UNHEALTHY, message="a fence", within="restart")
    with node.judging("PERSIST-01", "the device is still Unknown"):
        pod.still_shows(gpu, Health.UNKNOWN, message="")


@scenario("PERSIST-01", "PERSIST-02", "STREAM-02", needs=("stop-kubelet",))
async def test_health_survives_an_orderly_stop_of_the_kubelet(node: Node) -> None:
    driver, another = await node.driver(devices=2, heartbeat=0, timeout=600), await node.driver()
    gpu, brief = driver.gpus
    pod = await node.running_pod((await node.claim(driver, gpu=2))["gpu"], (await node.claim(another))["gpu"])
    await gpu.becomes(Health.UNHEALTHY, message="before the stop")
    await brief.becomes(Health.UNHEALTHY, message="with a timeout", timeout=40)
    await pod.shows(brief, Health.UNHEALTHY, message="with a timeout")
    await driver.is_silenced()
    await node.kubelet_stops(orderly=True)
    await node.advance_time(10)
    await node.kubelet_starts()
    await node.kubelet_catches_up()
    await another.gpus[0].becomes(Health.UNHEALTHY, message="a fence")
    await pod.shows(another.gpus[0], Health.UNHEALTHY, message="a fence", within="restart")
    with node.judging("PERSIST-01", "the health from before the stop is known"):
        pod.still_shows(gpu, Health.UNHEALTHY, message="before the stop")
    await node.advance_time(30.1)
    await another.gpus[0].becomes(Health.HEALTHY, message="another fence")
    await pod.shows(another.gpus[0], Health.HEALTHY, message="another fence")
    with node.judging("PERSIST-02", "the time of the last report counts"):
        pod.still_shows(brief, Health.UNKNOWN, message="")
    await driver.resumes()
    await gpu.becomes(Health.HEALTHY, message="after the stop")
    with node.judging("STREAM-02", "the plugin is watched again"):
        await pod.shows(gpu, Health.HEALTHY, message="after the stop")


@scenario("PERSIST-01", "STREAM-07", needs=("stop-kubelet", "control-without-kubelet"))
async def test_health_survives_a_restart_after_which_the_driver_is_unreachable(node: Node) -> None:
    driver, another = await node.driver(timeout=600), await node.driver()
    gpu, fence = driver.gpus[0], another.gpus[0]
    pod = await node.running_pod((await node.claim(driver))["gpu"], (await node.claim(another))["gpu"])
    await gpu.becomes(Health.UNHEALTHY, message="before the restart")
    await pod.shows(gpu, Health.UNHEALTHY, message="before the restart")
    await node.advance_time(1)  # a kubelet may gather changes before it writes its checkpoint
    await node.kubelet_stops()
    await driver.closes_its_endpoint()
    await node.kubelet_starts()
    await node.kubelet_catches_up()
    for _ in range(2):
        await node.advance_time(6)  # longer than the pause between two attempts
    await fence.becomes(Health.UNHEALTHY, message="a fence")
    await pod.shows(fence, Health.UNHEALTHY, message="a fence", within="restart")
    with node.judging("PERSIST-01", "failed connections do not clear the health"):
        pod.still_shows(gpu, Health.UNHEALTHY, message="before the restart")
    await gpu.becomes(Health.HEALTHY, message="while the driver is unreachable")
    await driver.opens_its_endpoint()
    with node.judging("STREAM-07", "the plugin is watched again"):
        await pod.shows(gpu, Health.HEALTHY, message="while the driver is unreachable", within="restart")
