"""KEP-4680, ResourceStatus: which devices show in which entry of which container."""

from drahealth.proto.values import Health
from drahealth.suites.scenario import scenario
from drahealth.suites.story.node import Node


@scenario(
    "STATUS-09",
    "STATUS-05",
    counterpart_of=("TestHandleWatchResourcesStream/HealthChangeForMultiplePodsWithSharedDevice",),
)
async def test_two_pods_that_share_a_claim_both_show_its_device(node: Node) -> None:
    driver = await node.driver()
    gpu = driver.gpus[0]
    claim = await node.claim(driver)
    first, second = await node.running_pod(claim["gpu"]), await node.running_pod(claim["gpu"])
    await gpu.becomes(Health.UNHEALTHY, message="shared sorrow")
    await first.shows(gpu, Health.UNHEALTHY, message="shared sorrow")
    with node.judging("STATUS-09", "a pod that shares the claim shows it too"):
        await second.shows(gpu, Health.UNHEALTHY, message="shared sorrow")


@scenario("STATUS-05", "STATUS-01")
async def test_two_devices_of_one_request_stand_in_one_entry_each_with_its_own_health(node: Node) -> None:
    driver = await node.driver(devices=2)
    good, bad = driver.gpus
    claim = await node.claim(driver, gpu=2)
    pod = await node.running_pod(claim["gpu"])
    await bad.becomes(Health.UNHEALTHY)
    await pod.shows(bad, Health.UNHEALTHY)
    pod.still_shows(good, Health.HEALTHY)
    await pod.shows_entries({f"claim:{claim.name}/gpu": [good, bad]})


@scenario("STATUS-05", "STATUS-01")
async def test_two_requests_of_one_claim_have_an_entry_each(node: Node) -> None:
    driver = await node.driver(devices=2)
    claim = await node.claim(driver, one=1, two=1)
    pod = await node.running_pod(claim["one"], claim["two"])
    one, two = await node.allocated(claim)
    await two.becomes(Health.UNHEALTHY)
    await pod.shows(two, Health.UNHEALTHY)
    pod.still_shows(one, Health.HEALTHY)
    with node.judging("STATUS-05", "each request has an entry with its own devices"):
        await pod.shows_entries({f"claim:{claim.name}/one": [one], f"claim:{claim.name}/two": [two]})


@scenario("STATUS-09", counterpart_of=("alpha2/status-containers",))
async def test_a_device_shows_in_every_container_that_uses_it_and_in_no_other(node: Node) -> None:
    driver = await node.driver()
    gpu = driver.gpus[0]
    claim = await node.claim(driver)
    pod = await node.running_pod(containers={"first": [claim["gpu"]], "second": [claim["gpu"]], "without": []})
    await gpu.becomes(Health.UNHEALTHY)
    await pod.shows(gpu, Health.UNHEALTHY)
    await pod.shows_only_in("first", "second")


@scenario("STATUS-05")
async def test_several_claims_of_one_container_have_an_entry_each(node: Node) -> None:
    one, other = await node.driver(), await node.driver()
    first, second = await node.claim(one), await node.claim(other)
    pod = await node.running_pod(first["gpu"], second["gpu"])
    await other.gpus[0].becomes(Health.UNHEALTHY)
    await pod.shows(other.gpus[0], Health.UNHEALTHY)
    pod.still_shows(one.gpus[0], Health.HEALTHY)
    await pod.shows_entries({f"claim:{first.name}/gpu": [one.gpus[0]], f"claim:{second.name}/gpu": [other.gpus[0]]})


@scenario("CLAIM-01", "STATUS-01")
async def test_a_claim_made_from_a_template_shows_under_the_pods_name_for_it(node: Node) -> None:
    driver = await node.driver()
    gpu = driver.gpus[0]
    claim = await node.claim(driver, template=True)
    pod = await node.running_pod(claim["gpu"])
    await gpu.becomes(Health.UNHEALTHY, message="made to fail")
    with node.judging("CLAIM-01", "a claim made from a template shows"):
        await pod.shows(gpu, Health.UNHEALTHY, message="made to fail")
        await pod.shows_entries({f"claim:{claim.name}/gpu": [gpu]})


@scenario("CLAIM-01", "STATUS-01")
async def test_a_claim_that_the_pod_gives_another_name_shows_under_that_name(node: Node) -> None:
    driver = await node.driver()
    gpu = driver.gpus[0]
    claim = await node.claim(driver, renamed=True)
    pod = await node.running_pod(claim["gpu"])
    await gpu.becomes(Health.UNHEALTHY, message="a rose by any other name")
    with node.judging("CLAIM-01", "a claim under another name shows"):
        await pod.shows(gpu, Health.UNHEALTHY, message="a rose by any other name")
        await pod.shows_entries({f"claim:{claim.name}/gpu": [gpu]})


@scenario("CLAIM-02", "STATUS-01")
async def test_a_container_that_names_no_request_has_an_entry_for_each(node: Node) -> None:
    driver = await node.driver(devices=3)
    claim = await node.claim(driver, one=1, two=2)
    pod = await node.running_pod(claim)
    one, *two = await node.allocated(claim)
    await two[1].becomes(Health.UNHEALTHY, message="one of three")
    await pod.shows(two[1], Health.UNHEALTHY, message="one of three")
    pod.still_shows(one, Health.HEALTHY)
    with node.judging("CLAIM-02", "there is an entry for each request"):
        await pod.shows_entries({f"claim:{claim.name}/one": [one], f"claim:{claim.name}/two": two})


@scenario("POD-01")
async def test_a_claim_that_no_container_uses_shows_in_the_pods_own_field(node: Node) -> None:
    driver = await node.driver(devices=2)
    used, unused = await node.claim(driver), await node.claim(driver)
    pod = await node.running_pod(used["gpu"], unused=[unused])
    (gpu,), (idle,) = await node.allocated(used), await node.allocated(unused)
    await idle.becomes(Health.UNHEALTHY, message="not missed")
    with node.judging("POD-01", "the pod's own field shows it"):
        await pod.own.shows(idle, Health.UNHEALTHY, message="not missed")
        await pod.own.shows_entries({f"claim:{unused.name}/gpu": [idle]})
    await gpu.becomes(Health.UNHEALTHY, message="missed")
    await pod.shows(gpu, Health.UNHEALTHY, message="missed")
    await pod.shows_entries({f"claim:{used.name}/gpu": [gpu]})


@scenario("STATUS-12")
async def test_devices_with_one_cdi_id_are_shown_each_with_its_own_health(node: Node) -> None:
    driver = await node.driver(devices=2, shared_cdi_id=True)
    claim = await node.claim(driver, gpu=2)
    pod = await node.pod(claim["gpu"])
    with node.judging("STATUS-12", "the status can be written"):
        await pod.is_running()
    good, bad = await node.allocated(claim)
    await bad.becomes(Health.UNHEALTHY, message="not to be overlooked")
    with node.judging("STATUS-12", "none hides another"):
        await pod.shows(bad, Health.UNHEALTHY, message="not to be overlooked")
        pod.still_shows(good, Health.HEALTHY)
    await bad.becomes(Health.HEALTHY)
    with node.judging("STATUS-12", "the status can be written"):
        await pod.shows(bad, Health.HEALTHY)


@scenario("STATUS-13")
async def test_entries_keep_their_order_from_one_status_to_the_next(node: Node) -> None:
    driver = await node.driver(devices=8)
    claim = await node.claim(driver, a=1, b=1, c=1, d=1, e=1, f=1, g=1, h=1)
    pod = await node.running_pod(*(claim[request] for request in "abcdefgh"))
    gpu = driver.gpus[0]
    await pod.shows(gpu, Health.HEALTHY)
    for number in range(6):
        health = (Health.UNHEALTHY, Health.HEALTHY)[number % 2]
        await gpu.becomes(health, message=f"change {number}")
        await pod.shows(gpu, health, message=f"change {number}")
    with node.judging("STATUS-13", "there is one order"):
        node.check(len(pod.orders()) == 1, "the same order of entries in each status", pod.orders())
