"""The fixtures `drahealth_...` in separate pytest runs."""

import pytest

from drahealth.suites.unit.command_process import run_pytest

STORY = """
        async with drahealth_async_node as node, drahealth_async_driver as driver:
            pod = await node.run_pod_with_device(driver)
            await pod.wait_for_health("gpu-0", "Healthy")
            await driver.inject("xid/79", "gpu-0")
            await pod.wait_for_health("gpu-0", "Unhealthy", message="XID 79*")
"""
SYNC = """
import pytest
from kubernetes import client, config

@pytest.mark.parametrize("number", range(4))
def test_story(drahealth_node, drahealth_driver, number):
    pod = drahealth_node.run_pod_with_device()
    drahealth_driver.inject("xid/48", pod.device)
    pod.wait_for_health(pod.device, "Unhealthy", message="XID 48*")
    api = client.CoreV1Api(config.new_client_from_config(str(drahealth_node.kubeconfig())))
    assert [found.metadata.name for found in api.list_namespaced_pod(drahealth_node.namespace).items] == [pod.name]
    pod.delete()

@pytest.fixture(scope="session")
def controller(drahealth_session_node):
    return drahealth_session_node.kubeconfig()

def test_part_of_the_node_of_the_session(controller, drahealth_session_node, drahealth_node):
    pods = [node.run_pod_with_device() for node in (drahealth_node, drahealth_session_node)]
    drahealth_node.driver.inject("xid/48", "gpu-0")
    pods[0].wait_for_health("gpu-0", "Unhealthy")
    assert (pods[1].device, pods[1].devices()[0].health) == ("gpu-0", "Healthy")
    assert len({pod.namespace for pod in pods}) == 2
"""
WITHOUT_PLUGINS = f"""
import asyncio

def test_story(drahealth_async_node, drahealth_async_driver):
    async def story():
        {STORY}
    asyncio.run(story())
"""
WITH_PLUGINS = f"""
import pytest

@pytest.mark.asyncio
async def test_of_pytest_asyncio(drahealth_async_node, drahealth_async_driver):
        {STORY}

@pytest.fixture
def anyio_backend():
    return "asyncio"

@pytest.mark.anyio
async def test_of_anyio(drahealth_async_node, drahealth_async_driver):
        {STORY}
"""
OPTIONS = """
import asyncio
import pytest
from drahealth.fakes import FakeDriver

def test_kubelet_has_the_profile(drahealth_kubelet):
    async def story():
        async with drahealth_kubelet as kubelet, FakeDriver.for_node(kubelet):
            await kubelet.wait_for_health("gpu-0", "Healthy")
            assert kubelet.profile.name == "v1.36"
    asyncio.run(story())

def test_driver_has_the_health_api(drahealth_async_node, drahealth_async_driver):
    async def story():
        async with drahealth_async_node, drahealth_async_driver as driver:
            assert driver.options.health_apis == ("v1alpha1.DRAResourceHealth",)
    asyncio.run(story())

def test_entering_a_driver_before_its_node_raises_an_error(drahealth_async_driver):
    with pytest.raises(RuntimeError):
        asyncio.run(drahealth_async_driver.__aenter__())
"""
ERRORS = ("-W", "error", "-W", "ignore::pytest.PytestAssertRewriteWarning")
"""Warnings are errors, but not that a plugin is imported already: the fork server has done so."""
NO_PLUGINS = ("-p", "no:asyncio", "-p", "no:anyio")


@pytest.mark.parametrize(
    ("tests", "options", "passed"),
    [
        (SYNC, (*ERRORS, *NO_PLUGINS), 5),
        (SYNC, ("-n", "2", "--drahealth-profile=v1.36"), 5),
        (WITHOUT_PLUGINS, NO_PLUGINS, 1),
        (WITH_PLUGINS, (), 2),
        (OPTIONS, ("--drahealth-profile=v1.36", "--drahealth-health-api=v1alpha1.DRAResourceHealth"), 3),
    ],
    ids=[
        "without asyncio",
        "without asyncio, with all plugins",
        "without plugins",
        "with pytest-asyncio and anyio",
        "with options",
    ],
)
def test_fixtures_work_in_tests_of_other_people(
    pytester: pytest.Pytester, tests: str, options: tuple[str, ...], passed: int
) -> None:
    pytester.makepyfile(tests)
    run_pytest(pytester, *options).assert_outcomes(passed=passed)


def test_node_on_a_target_without_local_drivers_is_an_error(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_node(drahealth_node): pass")
    run = run_pytest(pytester, *NO_PLUGINS, "--drahealth-target=kind")
    run.assert_outcomes(errors=1)
    run.stdout.fnmatch_lines(["*drahealth-target kind*choose reference or kubelet*"])
