"""KEP-4680, Design Details: plugins that stop, restart, have no health service, or are replaced."""

from drahealth.proto.health_apis import HEALTH_APIS
from drahealth.proto.values import Health
from drahealth.suites.run.scenario import scenario
from drahealth.suites.story.node import Node


@scenario("STREAM-01", "STREAM-02", counterpart_of=("e2e_node/plugin-stops",))
async def test_devices_of_a_stopped_plugin_show_unknown_until_it_restarts(node: Node) -> None:
    driver, pod, gpu = await node.pod_with_a_gpu()
    await pod.shows(gpu, Health.HEALTHY)
    await driver.stops()
    await pod.shows(gpu, Health.UNKNOWN, message="", within="resync")
    await driver.starts()
    with node.judging("STREAM-02", "the plugin is watched again"):
        await pod.shows(gpu, Health.HEALTHY)
        await gpu.becomes(Health.UNHEALTHY, message="after the restart")
        await pod.shows(gpu, Health.UNHEALTHY, message="after the restart")


@scenario("STREAM-01", "STREAM-02", counterpart_of=("TestConnectionHandling",))
async def test_devices_of_a_crashed_plugin_show_unknown_until_it_restarts(node: Node) -> None:
    driver, pod, gpu = await node.pod_with_a_gpu()
    await gpu.becomes(Health.UNHEALTHY, message="before the crash")
    await pod.shows(gpu, Health.UNHEALTHY, message="before the crash")
    await driver.crashes()
    await pod.shows(gpu, Health.UNKNOWN, message="", within="resync")
    await driver.starts()
    with node.judging("STREAM-02", "the plugin is watched again"):
        await pod.shows(gpu, Health.UNHEALTHY, message="before the crash")


@scenario("STREAM-04", "STREAM-01", "STREAM-02")
async def test_a_deregistered_plugin_is_no_longer_watched(node: Node) -> None:
    driver, pod, gpu = await node.pod_with_a_gpu()
    await gpu.becomes(Health.UNHEALTHY, message="while the driver was registered")
    await pod.shows(gpu, Health.UNHEALTHY, message="while the driver was registered")
    before = await driver.control.state()
    await driver.unregisters()
    with node.judging("STREAM-04", "the kubelet ends its stream"):
        await driver.has_no_stream()
    await pod.shows(gpu, Health.UNKNOWN, message="", within="resync")
    await node.kubelet_catches_up()
    state = await driver.control.state()
    with node.judging("STREAM-04", "the kubelet opens no new stream"):
        node.check((state.streams, state.streams_opened) == (0, before.streams_opened), "no new health stream", state)
    await driver.stops()
    await driver.starts()
    with node.judging("STREAM-02", "the plugin is watched again"):
        await pod.shows(gpu, Health.UNHEALTHY, message="while the driver was registered")


@scenario("STREAM-02", "STATUS-01", counterpart_of=("e2e_node/reconnect",))
async def test_a_pod_started_after_a_plugin_restart_shows_its_device(node: Node) -> None:
    driver = await node.driver(devices=2)
    early = await node.running_pod((await node.claim(driver))["gpu"])
    await early.shows(driver.gpus[0], Health.HEALTHY)
    await driver.crashes()
    await driver.starts()
    late = await node.running_pod((await node.claim(driver))["gpu"])
    await late.shows(driver.gpus[1], Health.HEALTHY)
    await driver.gpus[1].becomes(Health.UNHEALTHY, message="after the restart")
    await late.shows(driver.gpus[1], Health.UNHEALTHY, message="after the restart")


@scenario("OPTOUT-01", "OPTOUT-02", counterpart_of=("TestStartWithoutHealth",))
async def test_a_plugin_without_the_health_service_runs_pods_and_its_devices_show_unknown(node: Node) -> None:
    driver, pod, gpu = await node.pod_with_a_gpu(health_apis=())
    with node.judging("OPTOUT-01", "its device shows as Unknown"):
        await pod.shows(gpu, Health.UNKNOWN, message="")
    await node.kubelet_catches_up()
    await node.advance_time(6)
    await node.kubelet_catches_up()
    calls = (await driver.control.state()).stream_requests
    with node.judging("OPTOUT-02", "after Unimplemented there is no further attempt"):
        node.check(set(calls.values()) <= {1}, "the kubelet calls no health method twice", dict(calls))
    pod.still_shows(gpu, Health.UNKNOWN, message="")


@scenario("OPTOUT-01", "OPTOUT-02", counterpart_of=("kep/stream-unimplemented", "alpha2/stream-unimplemented"))
async def test_each_health_method_that_returns_unimplemented_is_called_once(node: Node) -> None:
    driver, pod, gpu = await node.pod_with_a_gpu(served_health_apis=())
    await pod.shows(gpu, Health.UNKNOWN, message="")
    _, later, seen = await node.pod_with_a_gpu()
    await later.shows(seen, Health.HEALTHY)  # so the health methods of the first driver have been called
    await node.advance_time(6)
    await node.kubelet_catches_up()
    calls = (await driver.control.state()).stream_requests
    with node.judging("OPTOUT-02", "after Unimplemented there is no further attempt"):
        node.check(set(calls.values()) == {1}, "the kubelet calls each health method once", dict(calls))
    await driver.restarts(node.served_health_apis)
    with node.judging("OPTOUT-02", "a plugin that registers again is watched"):
        await pod.shows(gpu, Health.HEALTHY)


@scenario("STREAM-06", "OPTOUT-02")
async def test_a_health_api_that_is_served_without_being_advertised_is_watched(node: Node) -> None:
    # Of several health APIs, the kubelet calls the last one only after all others.
    known = [name for name in node.served_health_apis if HEALTH_APIS[name].advertised in node.profile.health_apis]
    driver, pod, gpu = await node.pod_with_a_gpu(health_apis=(), served_health_apis=tuple(known[-1:]))
    with node.judging("STREAM-06", "the kubelet opens a stream"):
        await pod.shows(gpu, Health.HEALTHY)
        await gpu.becomes(Health.UNHEALTHY, message="not advertised")
        await pod.shows(gpu, Health.UNHEALTHY, message="not advertised")
    await node.advance_time(6)
    await node.kubelet_catches_up()
    calls = (await driver.control.state()).stream_requests
    with node.judging("OPTOUT-02", "an unimplemented method is not called again"):
        node.check(set(calls.values()) <= {1}, "the kubelet calls no health method twice", dict(calls))


@scenario("UPDATE-01", "UPDATE-02", "UPDATE-03", counterpart_of=("kep/stream-cancellation",))
async def test_in_a_rolling_update_the_newest_instance_is_watched(node: Node) -> None:
    older = await node.driver(devices=2)
    gpu, fence = older.gpus
    pod = await node.running_pod((await node.claim(older, gpu=2))["gpu"])
    await pod.shows(gpu, Health.HEALTHY)
    newer = await older.newer_instance()
    await newer.gpus[0].becomes(Health.UNHEALTHY, message="from the newer instance")
    await pod.shows(gpu, Health.UNHEALTHY, message="from the newer instance")
    await older.control.report([gpu.reading(Health.HEALTHY, "from the older instance")])
    await node.kubelet_catches_up()
    await newer.control.report([newer.gpus[1].reading(Health.UNHEALTHY, "a fence")])
    await pod.shows(fence, Health.UNHEALTHY, message="a fence")
    with node.judging("UPDATE-01", "a report of the older instance is not shown"):
        pod.still_shows(gpu, Health.UNHEALTHY, message="from the newer instance")
    state = await older.control.state()
    with node.judging("UPDATE-03", "the older instance is not watched"):
        node.check(state.streams == 0, "no stream of the older instance is open", state)
    await newer.control.stream_silence()
    await older.stops()
    await node.kubelet_catches_up()
    await newer.control.report([newer.gpus[1].reading(Health.HEALTHY, "another fence")])
    await pod.shows(fence, Health.HEALTHY, message="another fence")
    with node.judging("UPDATE-02", "the end of the older instance changes nothing"):
        pod.still_shows(gpu, Health.UNHEALTHY, message="from the newer instance")
    await newer.control.stream_restore("silence")
    await newer.gpus[0].becomes(Health.HEALTHY, message="from the newer instance again")
    await pod.shows(gpu, Health.HEALTHY, message="from the newer instance again")


@scenario("UPDATE-04")
async def test_when_the_newest_instance_stops_the_previous_one_is_watched_again(node: Node) -> None:
    older, pod, gpu = await node.pod_with_a_gpu()
    newer = await older.newer_instance()
    await newer.gpus[0].becomes(Health.UNHEALTHY, message="from the newer instance")
    await pod.shows(gpu, Health.UNHEALTHY, message="from the newer instance")
    await newer.stops()
    await node.kubelet_catches_up()
    await gpu.becomes(Health.HEALTHY, message="from the older instance again")
    await pod.shows(gpu, Health.HEALTHY, message="from the older instance again", within="resync")


@scenario("UPDATE-04")
async def test_when_the_newest_of_three_instances_stops_the_one_before_it_is_watched(node: Node) -> None:
    oldest, pod, gpu = await node.pod_with_a_gpu()
    middle = await oldest.newer_instance()
    newest = await middle.newer_instance()
    await newest.gpus[0].becomes(Health.UNHEALTHY, message="from the newest instance")
    await pod.shows(gpu, Health.UNHEALTHY, message="from the newest instance")
    for stopped, watched, health in ((newest, middle, Health.HEALTHY), (middle, oldest, Health.UNHEALTHY)):
        await stopped.stops()
        await node.kubelet_catches_up()
        await watched.gpus[0].becomes(health, message=f"from {watched} after the end of a newer one")
        await pod.shows(gpu, health, message=f"from {watched} after the end of a newer one", within="resync")


@scenario("STREAM-05", "STREAM-01")
async def test_a_health_stream_that_ends_is_opened_again(node: Node) -> None:
    driver, pod, gpu = await node.pod_with_a_gpu()
    await pod.shows(gpu, Health.HEALTHY)
    for number, code in enumerate(("OK", "UNAVAILABLE", "INTERNAL", "OK")):
        await driver.stream_ends(code)
        await node.advance_time(6)
        with node.judging("STREAM-05", f"the stream is opened again after {code}"):
            await driver.has_new_stream()
        await gpu.becomes(Health.UNHEALTHY, message=f"after end {number}")
        with node.judging("STREAM-05", f"reports count again after {code}"):
            await pod.shows(gpu, Health.UNHEALTHY, message=f"after end {number}")


@scenario("STREAM-01")
async def test_devices_of_a_stream_that_ended_without_an_error_show_unknown(node: Node) -> None:
    driver, pod, gpu = await node.pod_with_a_gpu()
    await gpu.becomes(Health.UNHEALTHY, message="before the end of the stream")
    await pod.shows(gpu, Health.UNHEALTHY, message="before the end of the stream")
    await driver.is_silenced()  # a new stream says nothing
    await driver.stream_ends("OK")
    await pod.shows(gpu, Health.UNKNOWN, message="", within="resync")
    await driver.resumes()
    await gpu.becomes(Health.HEALTHY, message="on the new stream")
    await pod.shows(gpu, Health.HEALTHY, message="on the new stream", within="restart")


@scenario("ABSENT-01")
async def test_a_pod_keeps_running_while_its_driver_is_absent(node: Node) -> None:
    driver, pod, gpu = await node.pod_with_a_gpu()
    await pod.shows(gpu, Health.HEALTHY)
    await driver.stops()
    await pod.shows(gpu, Health.UNKNOWN, message="", within="resync")
    with node.judging("ABSENT-01", "the pod keeps running"):
        await pod.is_running()
        node.check(pod.has_never_restarted(), "no container was restarted", pod)
    await driver.starts()
    await pod.shows(gpu, Health.HEALTHY)
    with node.judging("ABSENT-01", "the pod keeps running"):
        node.check(pod.has_never_restarted(), "no container was restarted", pod)


@scenario("ABSENT-02", "STATUS-01")
async def test_a_pod_of_an_absent_driver_starts_after_its_registration(node: Node) -> None:
    driver = await node.driver(devices=2)
    claim = await node.claim(driver)
    running = await node.running_pod((await node.claim(driver))["gpu"])
    await driver.stops()
    pod = await node.pod(claim["gpu"])
    await node.kubelet_catches_up()
    with node.judging("ABSENT-02", "the pod does not run before"):
        node.check(not pod.has_run(), "no container of the pod has run", pod)
    await driver.starts()
    with node.judging("ABSENT-02", "the pod runs"):
        await pod.is_running()
    [gpu], [other] = await pod.gpus(), await running.gpus()
    await gpu.becomes(Health.UNHEALTHY, message="after the registration")
    await pod.shows(gpu, Health.UNHEALTHY, message="after the registration")
    running.still_shows(other, Health.HEALTHY)


@scenario("ABSENT-03")
async def test_a_deleted_pod_of_an_absent_driver_remains_until_its_claim_is_unprepared(node: Node) -> None:
    driver, pod, gpu = await node.pod_with_a_gpu()
    await pod.shows(gpu, Health.HEALTHY)
    await driver.stops()
    await pod.is_deleted()
    await node.kubelet_catches_up()
    with node.judging("ABSENT-03", "the pod remains while the driver is absent"):
        node.check(pod.status is not None, "the pod exists", "it was deleted")
    await driver.starts()
    with node.judging("ABSENT-03", "the pod is deleted after its claim is unprepared"):
        await pod.is_gone()
