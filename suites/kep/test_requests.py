"""KEP-4680, ResourceStatus, and kubeletplugin, Device: requests, subrequests, and the devices that serve them."""

from drahealth.fakes.control.fake_options import Returned
from drahealth.proto.values import MESSAGE_LIMIT, Health
from drahealth.suites.run.scenario import scenario
from drahealth.suites.story.claims import Claim
from drahealth.suites.story.hardware import Driver
from drahealth.suites.story.node import Node
from drahealth.suites.story.workload import Pod, health_size

LARGEST_HEALTH = MESSAGE_LIMIT + 256
"""Bytes of JSON in a status for the health of a device."""


@scenario("STATUS-05")
async def test_a_container_shows_only_the_request_that_it_names(node: Node) -> None:
    driver = await node.driver(devices=2)
    claim = await node.claim(driver, one=1, two=1)
    pod = await node.running_pod(containers={"first": [claim["one"]], "second": [claim["two"]]})
    one, two = await node.allocated(claim)
    await two.becomes(Health.UNHEALTHY, message="of the second request")
    await pod["second"].shows(two, Health.UNHEALTHY, message="of the second request")
    with node.judging("STATUS-05", "each request has an entry with its own devices"):
        await pod["first"].shows_entries({claim["one"].entry: [one]})
        await pod["second"].shows_entries({claim["two"].entry: [two]})


@scenario("STATUS-05")
async def test_a_device_shows_under_each_request_that_its_driver_names(node: Node) -> None:
    driver = await _driver_with_devices_for_several_requests(node)
    claim = await node.claim(driver, one=1, two=1, three=1)
    pod = await node.running_pod(containers={name: [claim[name]] for name in ("one", "two", "three")})
    own, of_two, of_all = driver.gpus
    await of_two.becomes(Health.UNHEALTHY, message="it serves two requests")
    with node.judging("STATUS-05", "each request has an entry with its own devices"):
        for name, devices in {"one": [own, of_two, of_all], "two": [of_two, of_all], "three": [of_all]}.items():
            await pod[name].shows_entries({claim[name].entry: devices})
    await pod["one"].shows(of_two, Health.UNHEALTHY, message="it serves two requests")
    await pod["two"].shows(of_two, Health.UNHEALTHY, message="it serves two requests")


@scenario("CLAIM-02")
async def test_a_container_without_a_request_name_shows_the_requests_that_a_driver_names(node: Node) -> None:
    driver = await _driver_with_devices_for_several_requests(node)
    claim = await node.claim(driver, one=1, two=1, three=1)
    pod = await node.running_pod(claim)
    own, of_two, of_all = driver.gpus
    with node.judging("CLAIM-02", "there is an entry for each request"):
        await pod.shows_entries({claim["one"].entry: [own, of_two, of_all], claim["two"].entry: [of_two, of_all]})


@scenario("STATUS-05")
async def test_a_request_with_alternatives_shows_the_device_of_the_chosen_one(node: Node) -> None:
    driver = await node.driver(devices=2)
    claim = await node.claim_with_alternatives(driver, "gpu", "large", "small")
    pod = await node.running_pod(claim["gpu"])
    [gpu] = await node.allocated(claim)
    await gpu.becomes(Health.UNHEALTHY, message="of a subrequest")
    await pod.shows(gpu, Health.UNHEALTHY, message="of a subrequest")
    await pod.shows_entries({claim["gpu"].entry: [gpu]})


@scenario("STATUS-05")
async def test_a_device_whose_driver_names_a_subrequest_shows_under_its_request(node: Node) -> None:
    driver, claim = await _claim_of_a_subrequest(node)
    [gpu], pod = driver.gpus, await node.running_pod(claim["gpu"])
    await gpu.becomes(Health.UNHEALTHY, message="of the subrequest")
    with node.judging("STATUS-05", "the request of a subrequest has an entry with its device"):
        await pod.shows(gpu, Health.UNHEALTHY, message="of the subrequest")
        await pod.shows_entries({claim["gpu"].entry: [gpu]})
    await _ends(pod)


@scenario("STATUS-01")
async def test_a_container_that_names_no_request_shows_a_device_whose_driver_names_no_request(node: Node) -> None:
    returned = Returned(node.target.node_name, "gpu-0", requests=(), cdi_ids=None)
    node.unjudged.add("STATUS-20")  # what a request has is the word of this driver, not the allocation
    driver = await node.driver(returns={"gpu-0": (returned,)})
    gpu, pod = driver.gpus[0], await node.running_pod(await node.claim(driver))
    await gpu.becomes(Health.UNHEALTHY, message="of all requests")
    await pod.shows(gpu, Health.UNHEALTHY, message="of all requests")


@scenario("CLAIM-02")
async def test_a_container_without_a_request_name_shows_a_subrequest_under_its_request(node: Node) -> None:
    driver, claim = await _claim_of_a_subrequest(node)
    pod = await node.running_pod(claim)
    with node.judging("CLAIM-02", "there is an entry for each request"):
        await pod.shows_entries({claim["gpu"].entry: driver.gpus})


@scenario("PREPARE-06", needs=("see-cdi-devices",))
async def test_a_container_gets_the_cdi_devices_of_its_requests_and_no_others(node: Node) -> None:
    returned = Returned(node.target.node_name, "gpu-2", requests=(), cdi_ids=None)
    node.unjudged.add("STATUS-20")  # what a request has is the word of this driver, not the allocation
    driver = await node.driver(devices=3, returns={"gpu-2": (returned,)})
    claim = await node.claim(driver, one=1, two=1, three=1)
    uses = {"one": [claim["one"]], "two": [claim["two"]], "both": [claim["one"], claim["two"]], "none": []}
    pod = await node.running_pod(containers=uses)
    one, two, of_all = driver.gpus
    expected = {"one": (one, of_all), "two": (two, of_all), "both": (one, two, of_all), "none": ()}
    for container, gpus in expected.items():
        with node.judging("PREPARE-06", f"the container with {container} gets its CDI devices"):
            pod[container].has_cdi_devices(*gpus)
    driver, claim = await _claim_of_a_subrequest(node)
    pod = await node.running_pod(claim["gpu"])
    with node.judging("PREPARE-06", "the container gets the CDI devices of a subrequest"):
        pod["main"].has_cdi_devices(*driver.gpus)
    await _ends(pod)


@scenario("STATUS-12")
async def test_two_shares_of_a_device_show_it_once(node: Node) -> None:
    pool = node.target.node_name
    shares = tuple(Returned(pool, "gpu-0", share_id=share) for share in ("left", "right"))
    driver = await node.driver(cdi_ids=False, returns={"gpu-0": shares})
    gpu, pod = driver.gpus[0], await node.pod((await node.claim(driver))["gpu"])
    with node.judging("STATUS-12", "the status can be written"):
        await pod.is_running()
        await driver.has_reported(gpu, Health.HEALTHY)
        await gpu.becomes(Health.UNHEALTHY, message="of both shares")
        await pod.shows(gpu, Health.UNHEALTHY, message="of both shares")
        node.check(len(pod.resources(gpu)) == 1, f"{gpu} of {driver} once", pod)


@scenario("STATUS-05", "STATUS-23")
async def test_a_pod_shows_more_than_a_hundred_devices_of_a_driver(node: Node) -> None:
    driver = await node.driver(devices=112)
    claims = [await node.claim(driver, gpu=28) for _ in range(4)]
    pod = await node.running_pod(*(claim["gpu"] for claim in claims))
    await pod.has_devices(112)
    last, message = driver.gpus[-1], "m" * MESSAGE_LIMIT
    await driver.has_reported(last, Health.HEALTHY)
    await driver.control.report([gpu.reading(Health.UNHEALTHY, message) for gpu in driver.gpus])
    with node.judging("STATUS-23", "the status is written"):
        await pod.shows(last, Health.UNHEALTHY, message=message)
        await pod.has_devices(112)
    with node.judging("STATUS-23", "the health of each device is small"):
        size = health_size(await pod.object())
        node.check(size <= 112 * LARGEST_HEALTH, f"at most {LARGEST_HEALTH} bytes for each device", size)
    await last.becomes(Health.UNHEALTHY, message="the last of many")
    await pod.shows(last, Health.UNHEALTHY, message="the last of many")


async def _ends(pod: Pod) -> None:
    """Delete the pod, so that nothing waits for entries that it cannot have after a known issue."""
    await pod.is_deleted()
    await pod.is_gone()


async def _claim_of_a_subrequest(node: Node) -> tuple[Driver, Claim]:
    """A driver that names the subrequest `gpu/large` of its device, and a claim for it with the request `gpu`."""
    returned = Returned(node.target.node_name, "gpu-0", requests=("gpu/large",), cdi_ids=None)
    driver = await node.driver(returns={"gpu-0": (returned,)})
    return driver, await node.claim_with_alternatives(driver, "gpu", "large", "small")


async def _driver_with_devices_for_several_requests(node: Node) -> Driver:
    """A driver whose second device serves the requests `one` and `two`, and whose third one serves all requests."""
    pool = node.target.node_name
    returns = {
        "gpu-1": (Returned(pool, "gpu-1", requests=("one", "two")),),
        "gpu-2": (Returned(pool, "gpu-2", requests=()),),
    }
    node.unjudged.add("STATUS-20")  # what a request has is the word of this driver, not the allocation
    return await node.driver(devices=3, cdi_ids=False, returns=returns)
