"""KEP-4680, ResourceStatus: the entries of each container, and the devices in them."""

from drahealth.proto.values import Health
from drahealth.suites.run.scenario import scenario
from drahealth.suites.story.hardware import Gpu
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
    await gpu.becomes(Health.UNHEALTHY, message="uncorrectable ECC error")
    await first.shows(gpu, Health.UNHEALTHY, message="uncorrectable ECC error")
    with node.judging("STATUS-09", "a pod that shares the claim shows it too"):
        await second.shows(gpu, Health.UNHEALTHY, message="uncorrectable ECC error")


@scenario("STATUS-05", "STATUS-01")
async def test_two_devices_of_one_request_share_an_entry_and_keep_their_own_health(node: Node) -> None:
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
async def test_a_claim_from_a_template_shows_under_its_name_in_the_pod(node: Node) -> None:
    driver = await node.driver()
    gpu = driver.gpus[0]
    claim = await node.claim(driver, template=True)
    pod = await node.running_pod(claim["gpu"])
    await gpu.becomes(Health.UNHEALTHY, message="GPU has fallen off the bus")
    with node.judging("CLAIM-01", "a claim from a template shows"):
        await pod.shows(gpu, Health.UNHEALTHY, message="GPU has fallen off the bus")
        await pod.shows_entries({f"claim:{claim.name}/gpu": [gpu]})


@scenario("CLAIM-01", "STATUS-01")
async def test_a_claim_with_another_name_in_the_pod_shows_under_that_name(node: Node) -> None:
    driver = await node.driver()
    gpu = driver.gpus[0]
    claim = await node.claim(driver, renamed=True)
    pod = await node.running_pod(claim["gpu"])
    await gpu.becomes(Health.UNHEALTHY, message="row remap failure")
    with node.judging("CLAIM-01", "the claim shows under its name in the pod"):
        await pod.shows(gpu, Health.UNHEALTHY, message="row remap failure")
        await pod.shows_entries({f"claim:{claim.name}/gpu": [gpu]})


@scenario("CLAIM-02", "STATUS-01")
async def test_a_container_without_a_request_name_has_an_entry_for_each_request(node: Node) -> None:
    driver = await node.driver(devices=3)
    claim = await node.claim(driver, one=1, two=2)
    pod = await node.running_pod(claim)
    one, *two = await node.allocated(claim)
    await two[1].becomes(Health.UNHEALTHY, message="one of three")
    await pod.shows(two[1], Health.UNHEALTHY, message="one of three")
    pod.still_shows(one, Health.HEALTHY)
    with node.judging("CLAIM-02", "there is an entry for each request"):
        await pod.shows_entries({f"claim:{claim.name}/one": [one], f"claim:{claim.name}/two": two})


@scenario("PODLEVEL-01")
async def test_an_unused_claim_shows_in_the_status_of_the_pod_itself(node: Node) -> None:
    driver = await node.driver(devices=2)
    used, unused = await node.claim(driver), await node.claim(driver)
    pod = await node.running_pod(used["gpu"], unused=[unused])
    (gpu,), (idle,) = await node.allocated(used), await node.allocated(unused)
    await idle.becomes(Health.UNHEALTHY, message="the unused device failed")
    with node.judging("PODLEVEL-01", "the pod's own field shows it"):
        await pod.own.shows(idle, Health.UNHEALTHY, message="the unused device failed")
        await pod.own.shows_entries({f"claim:{unused.name}/gpu": [idle]})
    await gpu.becomes(Health.UNHEALTHY, message="the used device failed")
    await pod.shows(gpu, Health.UNHEALTHY, message="the used device failed")
    await pod.shows_entries({f"claim:{used.name}/gpu": [gpu]})


@scenario("STATUS-12")
async def test_devices_with_the_same_cdi_id_each_show_their_own_health(node: Node) -> None:
    driver = await node.driver(devices=2, shared_cdi_id=True)
    claim = await node.claim(driver, gpu=2)
    pod = await node.pod(claim["gpu"])
    with node.judging("STATUS-12", "the status can be written"):
        await pod.is_running()
    good, bad = await node.allocated(claim)
    await driver.has_reported(bad, Health.HEALTHY)
    await bad.becomes(Health.UNHEALTHY, message="thermal limit reached")
    with node.judging("STATUS-12", "each device shows its own health"):
        await pod.shows(bad, Health.UNHEALTHY, message="thermal limit reached")
        pod.still_shows(good, Health.HEALTHY)
    await bad.becomes(Health.HEALTHY)
    with node.judging("STATUS-12", "the status can be written"):
        await pod.shows(bad, Health.HEALTHY)


@scenario("STATUS-13")
async def test_entries_keep_their_order_between_status_updates(node: Node) -> None:
    driver = await node.driver(devices=8)
    claim = await node.claim(driver, a=1, b=1, c=1, d=1, e=1, f=1, g=1, h=1)
    pod = await node.running_pod(*(claim[request] for request in "abcdefgh"))
    gpu = driver.gpus[0]
    await pod.shows(gpu, Health.HEALTHY)
    for number in range(6):
        health = (Health.UNHEALTHY, Health.HEALTHY)[number % 2]
        await gpu.becomes(health, message=f"change {number}")
        await pod.shows(gpu, health, message=f"change {number}")
    with node.judging("STATUS-13", "the order of entries does not change"):
        node.check(len(pod.orders()) == 1, "the same order of entries in each status", pod.orders())


@scenario("STATUS-04", "STATUS-05")
async def test_two_partitions_of_a_device_each_show_their_own_health(node: Node) -> None:
    driver = await node.driver(devices=["gpu-0/mig-0", "gpu-0/mig-1"])
    first, second = [await node.running_pod((await node.claim(driver))["gpu"]) for _ in range(2)]
    [one], [other] = await first.gpus(), await second.gpus()
    await one.becomes(Health.UNHEALTHY, message="of one partition")
    await first.shows(one, Health.UNHEALTHY, message="of one partition")
    await second.shows(other, Health.HEALTHY)
    await one.becomes(Health.HEALTHY)
    await first.shows(one, Health.HEALTHY)
    await other.fails_with("xid/95")  # a fault of the whole device
    await second.shows(other, Health.UNHEALTHY, message=f"XID 95: {other.path}: memory error, not contained")
    await first.shows(one, Health.UNHEALTHY, message=f"XID 95: {one.path}: memory error, not contained")


@scenario("CLAIM-03")
async def test_a_device_that_a_container_holds_as_an_extended_resource_shows_its_health(node: Node) -> None:
    driver = await node.driver(devices=2)
    resource = await driver.provides_a_resource()
    pod = await node.running_pod(containers={"one": [resource], "two": [resource], "none": []})
    one, two = await pod.held()
    good, bad = Gpu(driver, one.device), Gpu(driver, two.device)
    await bad.becomes(Health.UNHEALTHY, message="held as an extended resource")
    with node.judging("CLAIM-03", "a container shows the device of its extended resource"):
        await pod["two"].shows(bad, Health.UNHEALTHY, message="held as an extended resource")
        pod["one"].still_shows(good, Health.HEALTHY)
        await pod["one"].shows_entries({f"claim:{one.claim}/{one.request}": [good]})
        await pod["two"].shows_entries({f"claim:{two.claim}/{two.request}": [bad]})
        await pod["none"].shows_nothing()
    await pod.is_deleted()  # so that nothing waits for entries that it cannot have after a known issue
    await pod.is_gone()


@scenario("STATUS-01", needs=("grant-resize", "resize-with-claims"))
async def test_a_pod_whose_resize_is_granted_shows_the_device_of_its_claim(node: Node) -> None:
    driver = await node.driver()
    pod = await node.running_pod((await node.claim(driver))["gpu"], limits={"cpu": "10m"})
    await pod.shows(driver.gpus[0], Health.HEALTHY)
    await pod.resizes_to({"cpu": "20m"})
    pod.still_shows(driver.gpus[0], Health.HEALTHY)
    await driver.gpus[0].becomes(Health.UNHEALTHY, message="after the resize")
    await pod.shows(driver.gpus[0], Health.UNHEALTHY, message="after the resize")
