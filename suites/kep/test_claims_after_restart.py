"""KEP-4680, Health Information Cache, and kubeletplugin: prepared claims after a restart of the kubelet."""

from drahealth.proto.events import Prepared, Unprepared
from drahealth.proto.values import Health
from drahealth.suites.run.scenario import scenario
from drahealth.suites.story.claims import Claim
from drahealth.suites.story.hardware import Driver
from drahealth.suites.story.node import Node


@scenario("PERSIST-04", "STATUS-05")
async def test_entries_survive_a_kubelet_restart_while_their_driver_is_absent(node: Node) -> None:
    driver, other = await node.driver(devices=2), await node.driver(timeout=600)
    lasting = await node.claim(other)
    claim = await node.claim(driver, one=1, two=1)  # the last one to be prepared before the restart
    pod = await node.running_pod(containers={"first": [claim["one"]], "second": [claim["two"], lasting["gpu"]]})
    [one, two], [gpu] = await node.allocated(claim), await node.allocated(lasting)
    await gpu.becomes(Health.UNHEALTHY, message="of a driver that stays")
    await one.becomes(Health.UNHEALTHY, message="before its driver stopped", timeout=600)
    await pod["first"].shows(one, Health.UNHEALTHY, message="before its driver stopped")
    await other.has_reported(gpu, Health.UNHEALTHY)
    await other.is_silenced()
    await driver.stops()
    await pod["first"].shows(one, Health.UNKNOWN, message="", within="resync")
    await node.advance_time(1)
    await node.kubelet_restarts()
    await node.kubelet_catches_up()
    with node.judging("PERSIST-04", "each device has its entry"):
        await pod["first"].shows(one, Health.UNKNOWN, message="", within="resync")
        await pod["second"].shows(two, Health.UNKNOWN, message="", within="resync")
        await pod["second"].shows(gpu, Health.UNHEALTHY, message="of a driver that stays")
    with node.judging("STATUS-05", "each request has an entry with its own devices"):
        await pod["first"].shows_entries({claim["one"].entry: [one]})
        await pod["second"].shows_entries({claim["two"].entry: [two], lasting["gpu"].entry: [gpu]})


@scenario("PREPARE-01", "PREPARE-05", needs=("stop-kubelet",))
async def test_pods_deleted_while_the_kubelet_is_down_have_their_claims_unprepared(node: Node) -> None:
    driver = await node.driver(devices=2)
    shared, own = await node.claim(driver), await node.claim(driver)
    first, second, third = [await node.running_pod(shared["gpu"]) for _ in range(3)]
    alone = await node.running_pod(own["gpu"])
    uid, own_uid, [gpu] = await _uid(node, shared), await _uid(node, own), await node.allocated(shared)
    await third.is_deleted()
    await third.is_gone()
    await node.kubelet_stops()
    await second.is_deleted()
    await alone.is_deleted()
    await node.kubelet_starts()
    await second.is_gone()
    await alone.is_gone()
    with node.judging("PREPARE-05", "the claim of the deleted pod is unprepared"):
        await _is_unprepared(node, own_uid, driver)
    with node.judging("PREPARE-01", "the shared claim stays prepared for the last pod"):
        node.check(not _unprepared(node, uid), "no NodeUnprepareResources", "the driver was called")
    await gpu.becomes(Health.UNHEALTHY, message="after the restart")
    await first.shows(gpu, Health.UNHEALTHY, message="after the restart", within="restart")
    await first.is_deleted()
    await first.is_gone()
    with node.judging("PREPARE-01", "it is unprepared after the last pod"):
        await _is_unprepared(node, uid, driver)


@scenario("PREPARE-02", needs=("restart-kubelet",))
async def test_a_claim_that_only_one_of_two_drivers_has_prepared_is_not_ready_after_a_restart(node: Node) -> None:
    one, two = await node.driver(), await node.driver()
    claim = await node.joint_claim(one=one, two=two)
    await two.control.fail_claims("prepare", "not ready yet")
    pod = await node.pod(claim["one"], claim["two"])
    await node.kubelet_catches_up()
    await node.kubelet_restarts()
    await node.kubelet_catches_up()
    with node.judging("PREPARE-02", "the pod does not run before"):
        node.check(not pod.has_run(), "no container of the pod has run", pod)
    await two.control.fail_claims("prepare")
    with node.judging("PREPARE-02", "the pod runs after a later attempt"):
        await pod.is_running()


@scenario("PREPARE-05", "PREPARE-03", needs=("stop-kubelet", "advance-time"))
async def test_a_claim_that_only_one_of_two_drivers_has_prepared_is_unprepared_after_a_restart(node: Node) -> None:
    one, two = await node.driver(), await node.driver()
    claim = await node.joint_claim(one=one, two=two)
    await two.control.fail_claims("prepare", "not ready yet")
    pod = await node.pod(claim["one"], claim["two"])
    await node.until(lambda: bool(_prepared(node, one)), "start", f"{one} has prepared the claim", "no call")
    await node.kubelet_stops()
    await pod.is_deleted(grace=0)
    await pod.is_gone()
    await node.kubelet_starts()
    await node.advance_time(60)  # a kubelet may look for such claims once a minute
    with node.judging("PREPARE-05", "the claim of the deleted pod is unprepared"):
        await _is_unprepared(node, _prepared(node, one)[0], one)


@scenario("PERSIST-02")
async def test_a_restart_does_not_extend_the_timeout_of_a_device(node: Node) -> None:
    driver = await node.driver(devices=2, heartbeat=0)
    quiet, other = driver.gpus
    pod = await node.running_pod((await node.claim(driver, gpu=2))["gpu"])
    await quiet.becomes(Health.UNHEALTHY, message="the last report", timeout=45)
    await pod.shows(quiet, Health.UNHEALTHY, message="the last report")
    await node.advance_time(37)  # the rest is shorter than a resync, and the whole timeout longer than its window
    await driver.control.report([other.reading(Health.UNHEALTHY, "a report of the other device", timeout=600)])
    await pod.shows(other, Health.UNHEALTHY, message="a report of the other device")
    await driver.is_silenced()
    await node.advance_time(1)  # a kubelet may gather changes before it writes its checkpoint
    await node.kubelet_restarts()
    await node.advance_time(7.1)
    with node.judging("PERSIST-02", "the time of its last report counts"):
        await pod.shows(quiet, Health.UNKNOWN, message="", within="resync")
    pod.still_shows(other, Health.UNHEALTHY, message="a report of the other device")


@scenario("PREPARE-06", needs=("restart-kubelet", "see-cdi-devices"))
async def test_a_container_that_starts_after_a_kubelet_restart_gets_its_cdi_devices(node: Node) -> None:
    _, pod, gpu = await node.pod_with_a_gpu()
    await node.kubelet_restarts()
    await node.kubelet_catches_up()
    await pod["main"].ends(1)
    await pod["main"].is_in_state("running", restarts=1)
    with node.judging("PREPARE-06", "the container gets the CDI device of its request"):
        pod["main"].has_cdi_devices(gpu)


async def _uid(node: Node, claim: Claim) -> str:
    return str((await node.claims.object(claim))["metadata"]["uid"])


def _prepared(node: Node, driver: Driver) -> list[str]:
    return [event.claim_uid for event in node.history.of(Prepared) if event.driver == driver.name]


def _unprepared(node: Node, uid: str) -> list[str]:
    return [event.driver for event in node.history.of(Unprepared) if event.claim_uid == uid]


async def _is_unprepared(node: Node, uid: str, driver: Driver) -> None:
    words = f"NodeUnprepareResources of {driver}"
    await node.until(lambda: driver.name in _unprepared(node, uid), "start", words, "no call")


@scenario("PERSIST-04")
async def test_a_pod_that_waits_for_its_deletion_keeps_its_entries_across_a_kubelet_restart(node: Node) -> None:
    driver, pod, gpu = await node.pod_with_a_gpu(timeout=600)
    await gpu.becomes(Health.UNHEALTHY, message="before the restart", timeout=600)
    await pod.shows(gpu, Health.UNHEALTHY, message="before the restart")
    await driver.control.fail_claims("unprepare", "the device is still in use")
    await pod.is_deleted()
    await node.kubelet_catches_up()
    await node.advance_time(1)
    await node.kubelet_restarts()
    await node.kubelet_catches_up()
    with node.judging("PERSIST-04", "each device has its entry"):
        pod.still_shows(gpu, Health.UNHEALTHY, message="before the restart")
    await driver.control.fail_claims("unprepare")
    await pod.is_gone()
