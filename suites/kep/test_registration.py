"""Plugin registration API, and kubeletplugin, RegistrationStatus: rejected plugins, calls that fail, one socket."""

from drahealth.proto.values import Health
from drahealth.suites.run.scenario import scenario
from drahealth.suites.story.hardware import Driver
from drahealth.suites.story.node import Node


@scenario("REGISTER-01")
async def test_a_plugin_that_the_kubelet_cannot_use_is_rejected_with_a_reason(node: Node) -> None:
    wrong = {
        "an unknown type": await node.new_driver(plugin_type="UnknownPlugin"),
        "an unknown version": await node.new_driver(dra_versions=("v0.DRAPlugin",)),
    }
    for what, driver in wrong.items():
        with node.judging("REGISTER-01", f"a plugin with {what} receives an error"):
            node.check(bool(await driver.starts_in_vain()), "an error text", "an empty error")
    await node.kubelet_catches_up()
    for what, driver in wrong.items():
        state = await driver.control.state()
        with node.judging("REGISTER-01", f"a plugin with {what} is not used"):
            node.check((state.registered, state.streams_opened) == (False, 0), "no registration and no stream", state)


@scenario("REGISTER-02", "STREAM-02")
async def test_a_registration_that_failed_is_tried_again(node: Node) -> None:
    driver = await node.new_driver()
    [gpu] = driver.gpus
    with node.judging("REGISTER-02", "the plugin is registered after a failed GetInfo"):
        await _starts_after_failures(node, driver, "GetInfo")
    pod = await node.running_pod((await node.claim(driver))["gpu"])
    await pod.shows(gpu, Health.HEALTHY)
    await driver.stops()
    with node.judging("REGISTER-02", "the plugin is registered after a failed NotifyRegistrationStatus"):
        await _starts_after_failures(node, driver, "NotifyRegistrationStatus")
    await gpu.becomes(Health.UNHEALTHY, message="after the second registration")
    with node.judging("STREAM-02", "the plugin is watched again"):
        await pod.shows(gpu, Health.UNHEALTHY, message="after the second registration")


@scenario("REGISTER-03")
async def test_a_plugin_without_an_endpoint_is_called_at_its_registration_socket(node: Node) -> None:
    driver = await node.new_driver(one_socket=True)
    with node.judging("REGISTER-03", "the plugin is registered"):
        await driver.starts()
    with node.judging("REGISTER-03", "its claims are prepared and its health is shown"):
        pod = await node.running_pod((await node.claim(driver))["gpu"])
        await driver.gpus[0].becomes(Health.UNHEALTHY, message="over one socket")
        await pod.shows(driver.gpus[0], Health.UNHEALTHY, message="over one socket")


async def _starts_after_failures(node: Node, driver: Driver, call: str) -> None:
    """Start the driver. This call of the registration fails once or more often."""
    before = driver.registrations
    await driver.control.fail_registration(call, "the driver is not ready yet")
    await driver.control.start()
    await driver.has_failed(call)
    await driver.control.fail_registration(call)
    await node.advance_time(1)
    await driver.is_registered(before)
