"""kubeletplugin, and KEP-4680 on claims that several drivers or pods share: prepare and unprepare."""

from drahealth.fakes.control.fake_options import Returned
from drahealth.proto.events import Unprepared
from drahealth.proto.values import Health
from drahealth.suites.run.scenario import scenario
from drahealth.suites.story.claims import Claim
from drahealth.suites.story.hardware import Driver
from drahealth.suites.story.node import Node


@scenario("PREPARE-01", "STATUS-09")
async def test_a_shared_claim_is_unprepared_after_its_last_pod(node: Node) -> None:
    driver = await node.driver()
    gpu = driver.gpus[0]
    claim = await node.claim(driver)
    first, second = await node.running_pod(claim["gpu"]), await node.running_pod(claim["gpu"])
    uid = await _uid(node, claim)
    await second.is_deleted()
    await second.is_gone()
    with node.judging("PREPARE-01", "it stays prepared for the other pod"):
        node.check(_unprepared(node, uid) == [], "no NodeUnprepareResources", "the driver was called")
    await gpu.becomes(Health.UNHEALTHY, message="after the end of the second pod")
    with node.judging("STATUS-09", "the other pod still shows it"):
        await first.shows(gpu, Health.UNHEALTHY, message="after the end of the second pod")
    await first.is_deleted()
    await first.is_gone()
    with node.judging("PREPARE-01", "it is unprepared after the last pod"):
        await _is_unprepared(node, uid, driver)


@scenario("PREPARE-01")
async def test_the_claim_of_a_pod_that_is_deleted_without_a_grace_period_is_unprepared(node: Node) -> None:
    driver, pod, gpu = await node.pod_with_a_gpu()
    await pod.shows(gpu, Health.HEALTHY)
    [claim] = pod.uses.claims
    uid = await _uid(node, claim)
    await pod.is_deleted(grace=0)
    await pod.is_gone()
    with node.judging("PREPARE-01", "it is unprepared after its last pod"):
        await _is_unprepared(node, uid, driver)


@scenario("PREPARE-02", "EVENT-03")
async def test_a_claim_that_its_driver_cannot_prepare_is_tried_again(node: Node) -> None:
    driver = await node.driver()
    gpu = driver.gpus[0]
    await driver.control.fail_claims("prepare", "the device is in use by another process")
    pod = await node.pod((await node.claim(driver))["gpu"])
    await node.kubelet_catches_up()
    with node.judging("PREPARE-02", "the pod does not run before"):
        node.check(not pod.has_run(), "no container of the pod has run", pod)
    with node.judging("EVENT-03", "an event has the error of the driver"):
        await pod.gets_warning("the device is in use by another process")
    await driver.control.fail_claims("prepare")
    with node.judging("PREPARE-02", "the pod runs after a later attempt"):
        await pod.is_running()
    await gpu.becomes(Health.UNHEALTHY, message="after the second attempt")
    await pod.shows(gpu, Health.UNHEALTHY, message="after the second attempt")


@scenario("PREPARE-03")
async def test_a_pod_whose_claim_cannot_be_prepared_can_be_deleted(node: Node) -> None:
    driver = await node.driver()
    claim = await node.claim(driver)
    await driver.control.fail_claims("prepare", "the device is in use by another process")
    pod = await node.pod(claim["gpu"])
    await node.kubelet_catches_up()
    uid = await _uid(node, claim)
    await pod.is_deleted()
    with node.judging("PREPARE-03", "the pod is deleted"):
        await pod.is_gone()
    with node.judging("PREPARE-03", "the driver is called to unprepare what it was asked to prepare"):
        await _is_unprepared(node, uid, driver)


@scenario("ABSENT-03")
async def test_a_pod_whose_claim_cannot_be_unprepared_remains(node: Node) -> None:
    driver, pod, gpu = await node.pod_with_a_gpu()
    await pod.shows(gpu, Health.HEALTHY)
    await driver.control.fail_claims("unprepare", "the device is still in use")
    await pod.is_deleted()
    await node.kubelet_catches_up()
    with node.judging("ABSENT-03", "the pod remains while the claim is prepared"):
        node.check(pod.status is not None, "the pod exists", "it was deleted")
    await driver.control.fail_claims("unprepare")
    with node.judging("ABSENT-03", "the pod is deleted after its claim is unprepared"):
        await pod.is_gone()


@scenario("PREPARE-07")
async def test_a_claim_that_an_answer_of_its_driver_omits_is_tried_again(node: Node) -> None:
    driver = await node.driver()
    await driver.control.fail_claims("prepare", omit=True)
    pod = await node.pod((await node.claim(driver))["gpu"])
    await node.kubelet_catches_up()
    with node.judging("PREPARE-07", "the pod does not run before its claim is prepared"):
        node.check(not pod.has_run(), "no container of the pod has run", pod)
    await driver.control.fail_claims("prepare")
    await driver.control.fail_claims("unprepare", omit=True)
    with node.judging("PREPARE-07", "the pod runs after a later answer"):
        await pod.is_running()
    await pod.is_deleted()
    await node.kubelet_catches_up()
    with node.judging("PREPARE-07", "the pod remains before its claim is unprepared"):
        node.check(pod.status is not None, "the pod exists", "it was deleted")
    await driver.control.fail_claims("unprepare")
    with node.judging("PREPARE-07", "the pod is deleted after a later answer"):
        await pod.is_gone()


@scenario("PREPARE-08")
async def test_a_pod_does_not_start_before_its_claim_is_reserved_for_it(node: Node) -> None:
    driver = await node.driver()
    claim = await node.claim(driver)
    await node.running_pod(claim["gpu"])
    pod = await node.pod(claim["gpu"], bound=True)
    await node.kubelet_catches_up()
    has_run = pod.has_run()  # in some clusters a controller reserves the claim
    with node.judging("PREPARE-08", "the pod does not run before"):
        is_reserved = await node.claims.is_reserved(claim, pod.uid)
        node.check(is_reserved or not has_run, "no container of the pod has run", pod)
    await node.claims.reserve(claim, await pod.object())
    with node.judging("PREPARE-08", "the pod runs after its claim is reserved"):
        await pod.is_running()
    await pod.is_deleted()
    await pod.is_gone()


@scenario("STATUS-09")
async def test_a_device_in_two_claims_shows_its_changes_in_the_pods_of_both(node: Node) -> None:
    driver = await node.driver()
    gpu = driver.gpus[0]
    claims = [await node.claim(driver), await node.admin_claim(driver)]
    pods = [await node.running_pod(claim["gpu"]) for claim in claims]
    for health in (Health.UNHEALTHY, Health.HEALTHY):
        await gpu.becomes(health, message=f"{health} in both claims")
        for pod in pods:
            await pod.shows(gpu, health, message=f"{health} in both claims")


@scenario("STATUS-09")
async def test_a_pod_keeps_its_entry_while_its_driver_cannot_prepare_the_claim_for_another_pod(node: Node) -> None:
    driver = await node.driver()
    [gpu], claim = driver.gpus, await node.claim(driver)
    pod = await node.running_pod(claim["gpu"])
    await gpu.becomes(Health.UNHEALTHY, message="before the other pod")
    await pod.shows(gpu, Health.UNHEALTHY, message="before the other pod")
    await driver.control.fail_claims("prepare", "the device is in use")
    other = await node.pod(claim["gpu"])  # a kubelet may call the driver again for it
    await node.kubelet_catches_up()
    pod.still_shows(gpu, Health.UNHEALTHY, message="before the other pod")
    await gpu.becomes(Health.HEALTHY)
    await pod.shows(gpu, Health.HEALTHY)
    await driver.control.fail_claims("prepare")
    await other.is_deleted()  # it has no entry on releases with P-05
    await other.is_gone()


@scenario("PREPARE-04", "STATUS-05")
async def test_a_claim_of_two_drivers_is_prepared_and_unprepared_by_both(node: Node) -> None:
    one, two = await node.driver(cdi_ids=False), await _driver_for_all_requests(node)
    claim = await node.joint_claim(one=one, two=two)
    pod = await node.running_pod(containers={"first": [claim["one"]], "second": [claim["two"]]})
    [mine], [other] = one.gpus, two.gpus
    for gpu, message in ((mine, "of the first driver"), (other, "of the second driver")):
        await gpu.becomes(Health.UNHEALTHY, message=message)
        with node.judging("PREPARE-04", f"the pod shows the device {message}"):
            await pod["first"].shows(gpu, Health.UNHEALTHY, message=message)
    with node.judging("STATUS-05", "each request has an entry with its own devices"):
        await pod["first"].shows_entries({claim["one"].entry: [mine, other]})
        await pod["second"].shows_entries({claim["two"].entry: [other]})
    uid = await _uid(node, claim)
    await pod.is_deleted()
    await pod.is_gone()
    with node.judging("PREPARE-04", "both drivers are called to unprepare it"):
        await _is_unprepared(node, uid, one, two)


@scenario("ABSENT-02", "PREPARE-02", "PREPARE-04")
async def test_a_claim_of_two_drivers_waits_for_the_second_one(node: Node) -> None:
    one, two = await node.driver(), await node.driver()
    claim = await node.joint_claim(one=one, two=two)
    await two.control.fail_claims("prepare", "not ready yet")
    pod = await node.pod(claim["one"], claim["two"])
    await node.kubelet_catches_up()
    with node.judging("ABSENT-02", "the pod does not run before"):
        node.check(not pod.has_run(), "no container of the pod has run", pod)
    await two.control.fail_claims("prepare")
    with node.judging("PREPARE-02", "the pod runs after a later attempt"):
        await pod.is_running()
    with node.judging("PREPARE-04", "the devices of both drivers are there"):
        await pod.shows(one.gpus[0], Health.HEALTHY)
        await pod.shows(two.gpus[0], Health.HEALTHY)


async def _driver_for_all_requests(node: Node) -> Driver:
    """A driver with one device, for which it names no request."""
    returns = {"gpu-0": (Returned(node.target.node_name, "gpu-0", requests=()),)}
    node.unjudged.add("STATUS-20")  # what a request has is the word of this driver, not the allocation
    return await node.driver(cdi_ids=False, returns=returns)


async def _uid(node: Node, claim: Claim) -> str:
    return str((await node.claims.object(claim))["metadata"]["uid"])


def _unprepared(node: Node, uid: str) -> list[str]:
    """The drivers that have unprepared the claim, once for each call that succeeded."""
    return [event.driver for event in node.history.of(Unprepared) if event.claim_uid == uid]


async def _is_unprepared(node: Node, uid: str, *drivers: Driver) -> None:
    """Wait until these drivers have unprepared the claim."""
    wanted = {driver.name for driver in drivers}
    words = f"NodeUnprepareResources of {', '.join(sorted(wanted))}"
    await node.until(lambda: set(_unprepared(node, uid)) == wanted, "start", words, "no call, or not of each driver")
