"""KEP-4680, Kubelet Integration: health streams that end, and plugins with older APIs or with a silent instance."""

from dataclasses import replace

from drahealth.fakes.control.fake_options import only_health_api
from drahealth.proto.health_apis import V1ALPHA1
from drahealth.proto.values import Health
from drahealth.suites.run.scenario import scenario
from drahealth.suites.story.node import Node


@scenario("STREAM-05")
async def test_a_health_stream_is_opened_again_whatever_its_end(node: Node) -> None:
    driver, pod, gpu = await node.pod_with_a_gpu()
    await pod.shows(gpu, Health.HEALTHY)
    for code in ("INTERNAL", "RESOURCE_EXHAUSTED", "a malformed message"):
        await (driver.stream_ends(code) if code.isupper() else driver.sends_a_malformed_message())
        await node.advance_time(6)
        with node.judging("STREAM-05", f"the stream is opened again after {code}"):
            await driver.has_new_stream()
        await gpu.becomes(Health.UNHEALTHY, message=f"after {code}")
        with node.judging("STREAM-05", f"reports count again after {code}"):
            await pod.shows(gpu, Health.UNHEALTHY, message=f"after {code}")


@scenario("STREAM-07", counterpart_of=("alpha2/stream-initiation-errors",))
async def test_a_plugin_that_registers_before_it_serves_its_endpoint_is_watched_later(node: Node) -> None:
    driver = await node.new_driver()
    [gpu] = driver.gpus
    await driver.closes_its_endpoint()
    await driver.control.start()
    await node.kubelet_catches_up()  # it may register the driver now, or only with its endpoint
    for _ in range(2):
        await node.advance_time(6)  # longer than the pause between two attempts
    await driver.opens_its_endpoint()
    with node.judging("STREAM-07", "the kubelet opens a health stream"):
        await driver.is_watched()
    pod = await node.running_pod((await node.claim(driver))["gpu"])
    await gpu.becomes(Health.UNHEALTHY, message="after the endpoint was opened")
    with node.judging("STREAM-07", "reports count"):
        await pod.shows(gpu, Health.UNHEALTHY, message="after the endpoint was opened")


@scenario("STREAM-01")
async def test_devices_show_unknown_after_a_malformed_message(node: Node) -> None:
    driver, pod, gpu = await node.pod_with_a_gpu(timeout=600)
    await gpu.becomes(Health.UNHEALTHY, message="before the malformed message")
    await pod.shows(gpu, Health.UNHEALTHY, message="before the malformed message")
    await driver.is_silenced()  # a new stream says nothing
    await driver.sends_a_malformed_message()
    with node.judging("STREAM-01", "the device shows Unknown after the end of the stream"):
        await pod.shows(gpu, Health.UNKNOWN, message="", within="resync")
    await driver.resumes()
    await gpu.becomes(Health.HEALTHY, message="on the new stream")
    await pod.shows(gpu, Health.HEALTHY, message="on the new stream", within="restart")


@scenario("STREAM-01")
async def test_the_end_of_a_stream_leaves_the_health_of_another_driver(node: Node) -> None:
    driver, another = await node.driver(timeout=600), await node.driver(timeout=600)
    gpu, other = driver.gpus[0], another.gpus[0]
    pod = await node.running_pod((await node.claim(driver))["gpu"], (await node.claim(another))["gpu"])
    for device in (gpu, other):
        await device.becomes(Health.UNHEALTHY, message=f"of {device.driver}")
        await pod.shows(device, Health.UNHEALTHY, message=f"of {device.driver}")
        await device.driver.is_silenced()  # later reports would hide that its health was lost
    await driver.stream_ends("OK")
    with node.judging("STREAM-01", "the device of the ended stream shows Unknown"):
        await pod.shows(gpu, Health.UNKNOWN, message="", within="resync")
    pod.still_shows(other, Health.UNHEALTHY, message=f"of {another}")


@scenario("OPTOUT-01")
async def test_devices_show_unknown_after_a_rolling_update_to_an_instance_without_a_health_api(node: Node) -> None:
    older, pod, gpu = await node.pod_with_a_gpu(timeout=600)
    await gpu.becomes(Health.UNHEALTHY, message="from the older instance")
    await pod.shows(gpu, Health.UNHEALTHY, message="from the older instance")
    newer = await node.add_driver(replace(older.options, instance="b", served_health_apis=()))
    await newer.starts()
    await older.stops()
    with node.judging("OPTOUT-01", "the device shows Unknown after the update"):
        await pod.shows(gpu, Health.UNKNOWN, message="", within="resync")
    await pod.is_running()


@scenario("STATUS-01")
async def test_a_report_without_devices_changes_nothing(node: Node) -> None:
    driver, pod, gpu = await node.pod_with_a_gpu()
    await pod.shows(gpu, Health.HEALTHY)
    opened = (await driver.control.state()).streams_opened
    await driver.control.report([])
    await gpu.becomes(Health.UNHEALTHY, message="after the empty report")
    await pod.shows(gpu, Health.UNHEALTHY, message="after the empty report")
    state = await driver.control.state()
    node.check(state.streams_opened == opened, "the same health stream", state)


@scenario("OPTOUT-01")
async def test_a_plugin_that_returns_unimplemented_prepares_further_claims(node: Node) -> None:
    driver = await node.driver(devices=2, served_health_apis=())
    for _ in range(2):
        pod = await node.running_pod((await node.claim(driver))["gpu"])
        [gpu] = await pod.gpus()
        await pod.shows(gpu, Health.UNKNOWN, message="")


@scenario("STREAM-02")
async def test_a_plugin_with_only_the_older_apis_prepares_claims_and_is_watched(node: Node) -> None:
    _, pod, gpu = await node.pod_with_a_gpu(dra_versions=("v1beta1.DRAPlugin",), **only_health_api(V1ALPHA1))
    await gpu.becomes(Health.UNHEALTHY, message="by the older API")
    await pod.shows(gpu, Health.UNHEALTHY, message="by the older API")


@scenario("STATUS-01")
async def test_a_newer_instance_that_is_silent_changes_nothing(node: Node) -> None:
    older, fence = await node.driver(timeout=600), await node.driver()
    claims = [await node.claim(driver) for driver in (older, fence)]
    pod = await node.running_pod(*(claim["gpu"] for claim in claims))
    [gpu], [other] = older.gpus, fence.gpus
    await gpu.becomes(Health.UNHEALTHY, message="from the older instance")
    await pod.shows(gpu, Health.UNHEALTHY, message="from the older instance")
    newer = await node.add_driver(replace(older.options, instance="b"))
    await newer.is_silenced()
    await newer.starts()
    await node.kubelet_catches_up()
    await other.becomes(Health.UNHEALTHY, message="a fence")
    await pod.shows(other, Health.UNHEALTHY, message="a fence")
    with node.judging("STATUS-01", "the device keeps its health"):
        pod.still_shows(gpu, Health.UNHEALTHY, message="from the older instance")
