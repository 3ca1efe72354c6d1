"""KEP-4680, Design Details: plugins that stop, come back, have no health service, or are replaced."""

from drahealth.proto.values import Health
from drahealth.suites.scenario import scenario
from drahealth.suites.story.node import Node


@scenario("STREAM-01", "STREAM-02", counterpart_of=("e2e_node/plugin-stops",))
async def test_the_devices_of_a_stopped_plugin_read_unknown_until_it_is_back(node: Node) -> None:
    driver, pod, gpu = await node.pod_with_a_gpu()
    await pod.shows(gpu, Health.HEALTHY)
    await driver.stops()
    await pod.shows(gpu, Health.UNKNOWN, message="", within="resync")
    await driver.starts()
    with node.judging("STREAM-02", "the plugin is watched again"):
        await pod.shows(gpu, Health.HEALTHY)
        await gpu.becomes(Health.UNHEALTHY, message="back with bad news")
        await pod.shows(gpu, Health.UNHEALTHY, message="back with bad news")


@scenario("STREAM-01", "STREAM-02", counterpart_of=("TestConnectionHandling",))
async def test_the_devices_of_a_crashed_plugin_read_unknown_until_it_is_back(node: Node) -> None:
    driver, pod, gpu = await node.pod_with_a_gpu()
    await gpu.becomes(Health.UNHEALTHY, message="before the crash")
    await pod.shows(gpu, Health.UNHEALTHY, message="before the crash")
    await driver.crashes()
    await pod.shows(gpu, Health.UNKNOWN, message="", within="resync")
    await driver.starts()
    with node.judging("STREAM-02", "the plugin is watched again"):
        await pod.shows(gpu, Health.UNHEALTHY, message="before the crash")


@scenario("STREAM-04", "STREAM-01", "STREAM-02")
async def test_a_plugin_that_is_deregistered_is_not_watched_any_more(node: Node) -> None:
    driver, pod, gpu = await node.pod_with_a_gpu()
    await gpu.becomes(Health.UNHEALTHY, message="while it was registered")
    await pod.shows(gpu, Health.UNHEALTHY, message="while it was registered")
    before = await driver.control.state()
    await driver.unregisters()
    with node.judging("STREAM-04", "its stream is ended"):
        await driver.has_no_stream()
    await pod.shows(gpu, Health.UNKNOWN, message="", within="resync")
    await node.kubelet_catches_up()
    state = await driver.control.state()
    with node.judging("STREAM-04", "no stream is opened again"):
        node.check((state.streams, state.streams_opened) == (0, before.streams_opened), "no new one", state)
    await driver.stops()
    await driver.starts()
    with node.judging("STREAM-02", "the plugin is watched again"):
        await pod.shows(gpu, Health.UNHEALTHY, message="while it was registered")


@scenario("STREAM-02", "STATUS-01", counterpart_of=("e2e_node/reconnect",))
async def test_a_pod_that_starts_after_its_plugin_came_back_shows_its_device(node: Node) -> None:
    driver = await node.driver(devices=2)
    early = await node.running_pod((await node.claim(driver))["gpu"])
    await early.shows(driver.gpus[0], Health.HEALTHY)
    await driver.crashes()
    await driver.starts()
    late = await node.running_pod((await node.claim(driver))["gpu"])
    await late.shows(driver.gpus[1], Health.HEALTHY)
    await driver.gpus[1].becomes(Health.UNHEALTHY, message="found after the break")
    await late.shows(driver.gpus[1], Health.UNHEALTHY, message="found after the break")


@scenario("OPTOUT-01", counterpart_of=("TestStartWithoutHealth",))
async def test_a_plugin_without_the_health_service_runs_pods_and_its_devices_read_unknown(node: Node) -> None:
    driver, pod, gpu = await node.pod_with_a_gpu(health_apis=())
    await pod.shows(gpu, Health.UNKNOWN, message="")
    await node.kubelet_catches_up()
    await node.advance_time(6)
    await node.kubelet_catches_up()
    state = await driver.control.state()
    with node.judging("OPTOUT-01", "it is not asked"):
        node.check(state.streams_opened == 0, "it is never asked for its health", state)


@scenario("OPTOUT-01", "OPTOUT-02", counterpart_of=("kep/stream-unimplemented", "alpha2/stream-unimplemented"))
async def test_a_plugin_that_answers_unimplemented_is_asked_once(node: Node) -> None:
    driver, pod, gpu = await node.pod_with_a_gpu(served_health_apis=())
    await pod.shows(gpu, Health.UNKNOWN, message="")
    await node.kubelet_catches_up()
    await node.advance_time(6)
    await node.kubelet_catches_up()
    state = await driver.control.state()
    with node.judging("OPTOUT-02", "it is asked once"):
        node.check(
            set(state.stream_requests.values()) == {1},
            "it is asked for its health once, by each method there is",
            state,
        )


@scenario("UPDATE-01", "UPDATE-02", "UPDATE-03", counterpart_of=("kep/stream-cancellation",))
async def test_in_a_rolling_update_the_newest_instance_is_watched(node: Node) -> None:
    older = await node.driver(devices=2)
    gpu, fence = older.gpus
    pod = await node.running_pod((await node.claim(older, gpu=2))["gpu"])
    await pod.shows(gpu, Health.HEALTHY)
    newer = await older.newer_instance()
    await newer.gpus[0].becomes(Health.UNHEALTHY, message="says the newer one")
    await pod.shows(gpu, Health.UNHEALTHY, message="says the newer one")
    await older.control.report([gpu.reading(Health.HEALTHY, "says the older one")])
    await node.kubelet_catches_up()
    await newer.control.report([newer.gpus[1].reading(Health.UNHEALTHY, "a fence")])
    await pod.shows(fence, Health.UNHEALTHY, message="a fence")
    with node.judging("UPDATE-01", "a report of the older instance is not shown"):
        pod.still_shows(gpu, Health.UNHEALTHY, message="says the newer one")
    state = await older.control.state()
    with node.judging("UPDATE-03", "the older instance is not watched"):
        node.check(state.streams == 0, "no stream of the older instance is open", state)
    await newer.control.stream_silence()
    await older.stops()
    await node.kubelet_catches_up()
    await newer.control.report([newer.gpus[1].reading(Health.HEALTHY, "another fence")])
    await pod.shows(fence, Health.HEALTHY, message="another fence")
    with node.judging("UPDATE-02", "the end of the older instance changes nothing"):
        pod.still_shows(gpu, Health.UNHEALTHY, message="says the newer one")
    await newer.control.stream_restore("silence")
    await newer.gpus[0].becomes(Health.HEALTHY, message="the newer one goes on")
    await pod.shows(gpu, Health.HEALTHY, message="the newer one goes on")


@scenario("UPDATE-04")
async def test_when_the_newest_instance_goes_the_one_before_it_is_watched_again(node: Node) -> None:
    older, pod, gpu = await node.pod_with_a_gpu()
    newer = await older.newer_instance()
    await newer.gpus[0].becomes(Health.UNHEALTHY, message="says the newer one")
    await pod.shows(gpu, Health.UNHEALTHY, message="says the newer one")
    await newer.stops()
    await node.kubelet_catches_up()
    await gpu.becomes(Health.HEALTHY, message="says the older one again")
    await pod.shows(gpu, Health.HEALTHY, message="says the older one again", within="resync")
