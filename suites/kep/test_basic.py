"""KEP-4680, Test Plan: Basic Health Reporting and State Transitions."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from drahealth.fakes.cluster.api import SLICES
from drahealth.proto.values import MESSAGE_LIMIT, Health
from drahealth.suites.run.scenario import scenario
from drahealth.suites.story.node import Node
from drahealth.suites.story.workload import Pod, without_health


@scenario(
    "STATUS-01",
    "STATUS-02",
    counterpart_of=("kep/e2e-unhealthy", "alpha2/e2e-unhealthy", "alpha2/status-containers", "e2e_node/health-changes"),
)
async def test_an_unhealthy_device_shows_in_the_pod_status_with_its_message(node: Node) -> None:
    _, pod, gpu = await node.pod_with_a_gpu()
    await pod.shows(gpu, Health.HEALTHY, message="")
    await gpu.becomes(Health.UNHEALTHY, message="GPU has fallen off the bus")
    await pod.shows(gpu, Health.UNHEALTHY)
    with node.judging("STATUS-02", "the pod shows the driver's message"):
        await pod.shows(gpu, Health.UNHEALTHY, message="GPU has fallen off the bus")


@scenario(
    "STATUS-03",
    "STATUS-15",
    counterpart_of=(
        "kep/e2e-healthy-again",
        "alpha2/e2e-unhealthy-and-back",
        "e2e_node/health-changes",
        "e2e/custom-messages",
    ),
)
async def test_a_recovered_device_shows_healthy_again(node: Node) -> None:
    _, pod, gpu = await node.pod_with_a_gpu()
    await gpu.becomes(Health.UNHEALTHY, message="GPU memory: uncorrectable error")
    await pod.shows(gpu, Health.UNHEALTHY, message="GPU memory: uncorrectable error")
    await gpu.becomes(Health.HEALTHY)
    await pod.shows(gpu, Health.HEALTHY, message="")
    with node.judging("STATUS-15", "the pod keeps running"):
        await pod.is_running()
        node.check(pod.has_never_restarted(), "no container was restarted", pod)


@scenario("STATUS-08", counterpart_of=("kep/e2e-rapid-changes", "alpha2/e2e-quick-succession"))
async def test_after_rapid_changes_the_status_shows_the_latest_health(node: Node) -> None:
    driver, pod, gpu = await node.pod_with_a_gpu()
    await pod.shows(gpu, Health.HEALTHY)
    await driver.reports_in_a_row(
        [gpu.reading((Health.UNHEALTHY, Health.HEALTHY)[n % 2], f"change {n}") for n in range(1, 201)]
    )
    await pod.shows(gpu, Health.UNHEALTHY, message="change 200")


@scenario("STATUS-01", "STATUS-03", counterpart_of=("e2e_node/concurrent",))
async def test_concurrent_pods_each_show_the_health_of_their_own_device(node: Node) -> None:
    driver = await node.driver(devices=3)
    claims = [await node.claim(driver) for _ in range(3)]
    pods = await asyncio.gather(*(node.running_pod(claim["gpu"]) for claim in claims))
    gpus = [(await node.allocated(claim))[0] for claim in claims]
    for health in (Health.UNHEALTHY, Health.HEALTHY):
        await asyncio.gather(*(gpu.becomes(health, f"{gpu} is {health}") for gpu in gpus))
        for pod, gpu in zip(pods, gpus, strict=True):
            await pod.shows(gpu, health, message=f"{gpu} is {health}")


@scenario("STATUS-04")
async def test_a_resource_id_consists_of_driver_pool_and_device(node: Node) -> None:
    driver = await node.driver()
    gpu = driver.gpus[0]
    await node.another_node_publishes(driver, gpu.name)
    pod = await node.running_pod((await node.claim(driver))["gpu"])
    await pod.has_devices(1)
    with node.judging("STATUS-04", "the ID is driver/pool/device"):
        node.check(pod.ids() == {str(gpu.id)}, f"the id {gpu.id}", pod)
        specs = [found["spec"] for found in await node.target.api.list(SLICES)]
        paths = [(s["driver"], s["pool"]["name"], one["name"]) for s in specs for one in s.get("devices") or ()]
        found = [path for path in paths if "/".join(path) in pod.ids()]
        node.check(len(found) == 1, "the ID of one device in all ResourceSlices", found)


@scenario("STATUS-11")
async def test_a_message_over_the_limit_is_cut_at_a_character_boundary(node: Node) -> None:
    _, pod, gpu = await node.pod_with_a_gpu()
    with node.judging("STATUS-11", "the status is written"):
        for health, message in ((Health.UNHEALTHY, "é" * 1100), (Health.HEALTHY, "ü" * 600)):  # 600: only in bytes over
            await gpu.becomes(health, message=message)
            await pod.shows(gpu, health)
            for shown in pod.resources(gpu) if node.profile.messages else ():
                fits = len(shown.message.encode()) <= MESSAGE_LIMIT
                begins = message.startswith(shown.message.rstrip(".")) and shown.message.startswith(message[0])
                node.check(fits and begins, f"the beginning of it in {MESSAGE_LIMIT} bytes", pod)
    await gpu.becomes(Health.UNHEALTHY, message="a short message")
    await pod.shows(gpu, Health.UNHEALTHY, message="a short message")


@scenario("STATUS-02", "STATUS-01")
async def test_a_new_message_shows_although_the_health_is_the_same(node: Node) -> None:
    _, pod, gpu = await node.pod_with_a_gpu()
    for message in ("one error", "two errors"):
        await gpu.becomes(Health.UNHEALTHY, message=message)
        with node.judging("STATUS-02", "the pod shows the new message"):
            await pod.shows(gpu, Health.UNHEALTHY, message=message)
    await gpu.becomes(Health.UNHEALTHY, message="")
    with node.judging("STATUS-02", "an empty message replaces it"):
        await pod.shows(gpu, Health.UNHEALTHY, message="")


@scenario("STATUS-16")
async def test_a_device_that_its_driver_reports_as_unknown_shows_unknown(node: Node) -> None:
    _, pod, gpu = await node.pod_with_a_gpu()
    await pod.shows(gpu, Health.HEALTHY)
    await gpu.becomes(Health.UNKNOWN, message="the daemon does not answer")
    with node.judging("STATUS-16", "the pod shows Unknown"):
        await pod.shows(gpu, Health.UNKNOWN, message="the daemon does not answer")
    await gpu.becomes(Health.HEALTHY)
    await pod.shows(gpu, Health.HEALTHY, message="")


@scenario("STATUS-16")
async def test_a_device_that_its_driver_never_reported_shows_unknown(node: Node) -> None:
    driver = await node.driver(devices=2)
    unreported, other = driver.gpus
    await driver.is_silenced()
    await driver.restarts()
    pod = await node.running_pod((await node.claim(driver, gpu=2))["gpu"])
    await driver.is_watched()
    await driver.control.report([other.reading(Health.UNHEALTHY, "the only device in this report", timeout=600)])
    await pod.shows(other, Health.UNHEALTHY, message="the only device in this report")
    with node.judging("STATUS-16", "a device without a report shows as Unknown"):
        pod.still_shows(unreported, Health.UNKNOWN, message="")
    await driver.resumes()
    await unreported.becomes(Health.HEALTHY)
    await pod.shows(unreported, Health.HEALTHY)


@scenario("STATUS-15", "STATUS-17")
async def test_a_change_of_health_changes_nothing_else_in_the_status_and_no_other_pod(node: Node) -> None:
    driver = await node.driver(devices=2)
    pod, other_pod = [await node.running_pod((await node.claim(driver))["gpu"]) for _ in range(2)]
    [gpu], [other] = await pod.gpus(), await other_pod.gpus()
    # On cgroup v1 the second write of a status adds a memory limit (B-35), so each status is written twice before.
    for health in (Health.UNKNOWN, Health.HEALTHY):
        for shown, which in ((pod, gpu), (other_pod, other)):
            await which.becomes(health)
            await shown.shows(which, health)
    await node.events_arrive()
    before, untouched = await pod.object(), await other_pod.object()
    await gpu.becomes(Health.UNHEALTHY, message="the only change")
    await pod.shows(gpu, Health.UNHEALTHY, message="the only change")
    after = await pod.object()
    with node.judging("STATUS-15", "phase, conditions and containers stay as they are"):
        node.check(without_health(after) == without_health(before), "the same status but for health", after["status"])
    await node.kubelet_catches_up()
    version = await other_pod.version()
    with node.judging("STATUS-17", "a pod without the device is not written"):
        expected = untouched["metadata"]["resourceVersion"]
        node.check(version == expected, f"resource version {expected} of pod {other_pod.name}", version)


@scenario("STATUS-01", needs=("user-namespaces",))
async def test_a_pod_in_a_user_namespace_of_its_own_shows_the_health_of_its_devices(node: Node) -> None:
    driver, plugin = await node.driver(), await node.device_plugin()
    pod = await node.running_pod((await node.claim(driver))["gpu"], plugin.request(), hostUsers=False)
    await driver.gpus[0].becomes(Health.UNHEALTHY, message="in a user namespace")
    await pod.shows(driver.gpus[0], Health.UNHEALTHY, message="in a user namespace")
    await plugin.gpus[0].becomes(Health.UNHEALTHY)
    await pod.shows(plugin.gpus[0], Health.UNHEALTHY)


@scenario("DP-01", needs=("resize",))
async def test_a_pod_whose_resize_is_deferred_shows_the_device_of_a_device_plugin(node: Node) -> None:
    plugin = await node.device_plugin()
    await node.running_pod(limits={"cpu": "10m"})  # the node has less than its whole cpu for any other pod
    pod = await node.running_pod(plugin.request(), limits={"cpu": "10m"})
    async with _resized(pod):
        pod.still_shows(plugin.gpus[0], Health.HEALTHY)
        await plugin.gpus[0].becomes(Health.UNHEALTHY)
        await pod.shows(plugin.gpus[0], Health.UNHEALTHY)


@scenario("STATUS-01", needs=("resize", "resize-with-claims"))
async def test_a_pod_whose_resize_is_deferred_shows_the_device_of_its_claim(node: Node) -> None:
    driver = await node.driver()
    await node.running_pod(limits={"cpu": "10m"})  # the node has less than its whole cpu for any other pod
    pod = await node.running_pod((await node.claim(driver))["gpu"], limits={"cpu": "10m"})
    await pod.shows(driver.gpus[0], Health.HEALTHY)
    async with _resized(pod):
        pod.still_shows(driver.gpus[0], Health.HEALTHY)
        await driver.gpus[0].becomes(Health.UNHEALTHY, message="after the resize")
        await pod.shows(driver.gpus[0], Health.UNHEALTHY, message="after the resize")


@asynccontextmanager
async def _resized(pod: Pod) -> AsyncIterator[None]:
    """The pod asks for all cpu of the node, which is deferred. It is deleted before the other pod, whatever happens:
    otherwise the kubelet grants the resize when the other pod ends (N-10).
    """
    await pod.asks_for_all("cpu")
    try:
        yield
    finally:
        await pod.is_deleted()
        await pod.is_gone()
