"""Stories for mutants that no scenario of the suite fails by the requirement that the mutant breaks."""

from drahealth.proto.events import ReportSent, StatusWritten
from drahealth.proto.values import Health
from drahealth.suites.run.scenario import scenario
from drahealth.suites.story.node import Node


@scenario("STATUS-01")
async def told_and_not_waited_for(node: Node) -> None:
    """The requirements that are checked at the end of a story."""
    _, pod, gpu = await node.pod_with_a_gpu()
    await pod.shows(gpu, Health.HEALTHY)
    await gpu.becomes(Health.UNHEALTHY)
    assert await node.history.until(lambda: any(_bad(report) for report in node.history.of(ReportSent)), 60)


@scenario("STATUS-07")
async def unknown_at_the_end(node: Node) -> None:
    """A pod whose device becomes Unknown without a cause."""
    driver, pod, gpu = await node.pod_with_a_gpu()
    await gpu.becomes(Health.UNHEALTHY)
    await pod.shows(gpu, Health.UNHEALTHY)
    await driver.control.report([gpu.reading(Health.UNHEALTHY)])
    assert await node.history.until(lambda: any(r.health is Health.UNKNOWN for r in pod.resources(gpu)), 60)


@scenario("STATUS-10")
async def never_shown(node: Node) -> None:
    """A pod with a device in two containers. Nobody looks at the second one."""
    driver = await node.driver()
    claim = await node.claim(driver)
    pod = await node.running_pod(containers={"one": [claim["gpu"]], "two": [claim["gpu"]]})
    await pod["one"].shows(driver.gpus[0], Health.HEALTHY)


@scenario("STATUS-01")
async def two_containers_and_another(node: Node) -> None:
    """A pod with a container that uses no device."""
    driver = await node.driver()
    claim = await node.claim(driver)
    pod = await node.running_pod(containers={"one": [claim["gpu"]], "none": []})
    await pod["one"].shows(driver.gpus[0], Health.HEALTHY)


@scenario("STATUS-01")
async def one_device_of_two(node: Node) -> None:
    """A pod with one of two devices of a driver."""
    driver = await node.driver(devices=2)
    pod = await node.running_pod((await node.claim(driver))["gpu"])
    await pod.shows((await pod.gpus())[0], Health.HEALTHY)


@scenario("STATUS-01")
async def refused_at_first(node: Node) -> None:
    """A pod whose two devices have one CDI ID. It is deleted at once: the API server rejects its final status, too."""
    driver = await node.driver(devices=2, shared_cdi_id=True)
    pod = await node.pod((await node.claim(driver, gpu=2))["gpu"])
    await node.history.until(lambda: any(write.error for write in node.history.of(StatusWritten)), 5)
    await pod.is_deleted(grace=0)


@scenario("STATUS-01")
async def second_pod(node: Node) -> None:
    """A second pod that shares a claim. It starts when the kubelet knows the health of the device."""
    driver = await node.driver()
    claim = await node.claim(driver)
    for _ in range(2):
        pod = await node.running_pod(claim["gpu"])
        await pod.shows(driver.gpus[0], Health.HEALTHY)


@scenario("STATUS-10")
async def two_containers(node: Node) -> None:
    """A pod with a device in two containers."""
    driver = await node.driver()
    claim = await node.claim(driver)
    pod = await node.running_pod(containers={"one": [claim["gpu"]], "two": [claim["gpu"]]})
    await pod.shows(driver.gpus[0], Health.HEALTHY)
    await driver.gpus[0].becomes(Health.UNHEALTHY)
    await pod["one"].shows(driver.gpus[0], Health.UNHEALTHY)


def _bad(report: ReportSent) -> bool:
    return any(device.health is Health.UNHEALTHY for device in report.devices)
