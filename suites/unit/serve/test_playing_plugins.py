"""Timelines played on a served driver and the device plugin in the same file."""

from collections.abc import AsyncIterator

import pytest

from drahealth.fakes.cluster.api import Object
from drahealth.fakes.program.errors import CommandError
from drahealth.suites.unit.endings import PATIENCE
from drahealth.suites.unit.manager.rig import until
from drahealth.suites.unit.serve.rig import DRIVER, FILE, Rig
from drahealth.suites.unit.serve.test_device_plugins import BOTH, RESOURCE, SOCKET, WELL, Kubelet, unlisted
from drahealth.suites.unit.serve.test_playing import ends, registered, shown, shows, story, told
from drahealth.suites.unit.serve.test_pod_annotations import World, pod

PATHS = ("gpu-0", "gpu-1", "split", "split/mig")
"""The device plugin's devices, and what they are parts of."""
SICK = "{plugin: {health: Unhealthy}, device: gpu-0}"
"""A step."""
TWO = "  - {resource: example.com/nic, devices: [{name: gpu, count: 2}]}\n"
"""Another plugin of a file."""


@pytest.fixture
async def both(rig: Rig) -> AsyncIterator[Rig]:
    """A driver and a device plugin in one file, and kubelets that register them, nothing running yet."""
    rig.file.write_text(BOTH)
    kubelet = Kubelet(rig)
    await kubelet.socket.start()
    yield rig
    await kubelet.socket.stop()


async def begins(rig: Rig, *steps: str, more: str = "") -> None:
    """The story of these steps has begun."""
    await rig.serve(play=story(rig, *steps, more=more))
    await registered(rig)
    assert await until(lambda: told(rig, "timeline-started"), PATIENCE)


async def played(rig: Rig, *steps: str) -> list[str]:
    """Why which of its steps could not be done, once the story is over."""
    await begins(rig, *steps)
    assert await until(lambda: told(rig, "timeline-ended"), PATIENCE)
    return [line["why"] for line in told(rig, "step-failed")]


async def says(rig: Rig) -> dict[str, str]:
    """What the device plugin says of its devices."""
    return {device["device"]: device["health"] for device in await rig.told("devices", RESOURCE)}


def listed_as(health: str, entry: str = RESOURCE, name: str = "job") -> Object:
    """A pod whose container has gpu-0 of a device plugin, and shows it so."""
    entries = [{"name": entry, "resources": [{"resourceID": "gpu-0", "health": health}]}]
    status = {"name": "main", "allocatedResourcesStatus": entries}
    made = pod(name)
    made["spec"]["containers"][0]["resources"] = {"requests": {entry: "1"}, "limits": {entry: "1"}}
    return {**made, "status": {"phase": "Running", "containerStatuses": [status]}}


# -- what it is told


async def test_plugin_steps_set_devices_and_partitions_of_the_plugin_only(both: Rig) -> None:
    steps = (SICK, "{plugin: {health: Hot}, device: split}", "{plugin: {listed: false}, device: gpu-1}")
    assert await played(both, *steps) == []
    assert await says(both) == {"gpu-0": "Unhealthy", "gpu-1": "Healthy", "split-mig": "Hot"}
    assert await unlisted(both) == ["gpu-1"]
    assert {device["health"] for device in await both.told("devices", DRIVER)} == {"Healthy"}


@pytest.mark.parametrize(
    ("steps", "runs", "there"),
    [
        (["{plugin: crash}"], False, True),
        (["{plugin: stop}"], False, False),
        (["{plugin: crash}", "{plugin: start}", "{plugin: start}"], True, True),
        (["{plugin: stop}", "{plugin: restart}"], True, True),
        (["{plugin: crash, for: 1ms}"], True, True),
        (["{plugin: stop, for: 1ms}"], True, True),
    ],
)
async def test_plugin_steps_crash_stop_start_and_restart_the_plugin(
    both: Rig, steps: list[str], runs: bool, there: bool
) -> None:
    assert await played(both, *steps) == []
    state = await both.told("state", RESOURCE)
    assert (state["running"], (both.root / SOCKET).is_socket()) == (runs, there)
    assert (await both.told("state", DRIVER))["running"]


async def test_reset_step_also_resets_the_device_plugin(both: Rig) -> None:
    await begins(both, SICK, "{plugin: {listed: false}, device: gpu-1}", "{when: {calls: 1}, reset: true}")
    assert await until(lambda: len(told(both, "step-started")) == 2, PATIENCE)
    await both.told("inject", RESOURCE, fault="xid/95", device="split")
    await World(both).claim("gpu-0")
    assert await ends(both) == []
    assert (await says(both), await unlisted(both)) == (WELL, [])
    assert (await both.told("state", RESOURCE))["faults"] == {}


async def test_reset_in_a_timeline_without_plugin_steps_keeps_plugin_faults(both: Rig) -> None:
    await begins(both, "{inject: xid/95, device: gpu-0}", "{when: {calls: 1}, reset: true}")
    await both.told("inject", RESOURCE, fault="xid/95", device="gpu-0")
    await World(both).claim("gpu-0")
    assert await ends(both) == []
    faults = [(await both.told("state", name))["faults"] for name in (DRIVER, RESOURCE)]
    assert faults == [{}, {"gpu-0": ["xid/95"]}]


async def test_inject_step_affects_the_driver_and_not_the_plugin(both: Rig) -> None:
    assert await played(both, "{plugin: start}", "{inject: xid/95, device: gpu-0}") == []
    assert (await says(both), (await both.told("state", DRIVER))["faults"]) == (WELL, {"gpu-0": ["xid/95"]})


async def test_failed_plugin_step_is_reported_and_the_timeline_continues(both: Rig) -> None:
    assert await played(both, "{plugin: {listed: true}, device: gpu-0}", SICK) == [
        f"device plugin {RESOURCE} already lists gpu-0"
    ]
    assert await says(both) == {**WELL, "gpu-0": "Unhealthy"}


async def test_timeline_with_plugin_steps_starts_after_the_plugin_is_registered(rig: Rig) -> None:
    rig.file.write_text(BOTH)
    await rig.serve(play=story(rig, SICK))
    await registered(rig)
    await rig.told("state", DRIVER)
    assert told(rig, "timeline-started") == []
    kubelet = Kubelet(rig)
    await kubelet.socket.start()
    assert await ends(rig) == []
    assert await says(rig) == {**WELL, "gpu-0": "Unhealthy"}
    await kubelet.socket.stop()


# -- what is expected of it


async def test_expect_passes_when_a_pod_shows_the_plugins_device_health(both: Rig) -> None:
    await begins(both, '{expect: {device: gpu-0, of: plugin, health: Unhealthy, message: ""}, within: 1h}')
    await shown(both, listed_as("Healthy"))
    await shown(both, listed_as("Unhealthy"))
    assert await ends(both) == [("met", "")]
    (met,) = told(both, "expectation-met")
    assert met["expected"] == "gpu-0 of the device plugin Unhealthy ''"


async def test_expect_ignores_devices_of_other_resources_with_the_same_name(both: Rig) -> None:
    await shown(both, listed_as("Unhealthy", entry="example.com/nic"))
    await shown(both, shows("Unhealthy", name="other"))
    expected = "{expect: {device: gpu-0, of: plugin, health: Unhealthy}, within: 50ms}"
    await begins(both, expected, "{expect: {device: gpu-0, health: Unhealthy}, within: 1h}")
    assert await ends(both) == [("failed", "no pod shows it"), ("met", "")]


async def test_expect_on_the_driver_ignores_devices_of_the_plugin(both: Rig) -> None:
    await shown(both, listed_as("Healthy"))
    of_both = "{expect: {device: gpu-0, of: plugin, health: Unhealthy}, within: 50ms}"
    await begins(both, of_both, "{expect: {device: gpu-0, health: Healthy}, within: 50ms}")
    assert await ends(both) == [("failed", "a pod shows Healthy ''"), ("failed", "no pod shows it")]


async def test_expect_on_held_matches_any_device_of_the_plugin(both: Rig) -> None:
    await shown(both, listed_as("Unhealthy"))
    await begins(both, "{expect: {device: held, of: plugin, health: Unhealthy}, within: 1h}")
    assert await ends(both) == [("met", "")]


# -- what cannot be played


EXPECTED = "{expect: {device: gpu-0, of: plugin, health: Healthy}}"
NONE = "the file has no device plugin; add one to `plugins:`, or remove "
MANY = f"the file has 2 device plugins ({RESOURCE}, example.com/nic); serve each in its own process, or remove "
NO_SUCH = f"the device plugin {RESOURCE} has no device split/mig-0; did you mean split/mig? valid: {', '.join(PATHS)}"


@pytest.mark.parametrize(
    ("file", "step", "words"),
    [
        (FILE, SICK, f"{NONE}the step"),
        (FILE, EXPECTED, f"{NONE}`of: plugin`"),
        (BOTH + TWO, "{plugin: restart}", f"{MANY}the step"),
        (BOTH + TWO, EXPECTED, f"{MANY}`of: plugin`"),
        (BOTH, "{plugin: {health: Hot}, device: split/mig-0}", NO_SUCH),
    ],
)
async def test_step_without_a_matching_plugin_or_device_is_rejected(rig: Rig, file: str, step: str, words: str) -> None:
    rig.file.write_text(file)
    path = story(rig, "{mark: fine}", step)
    with pytest.raises(CommandError) as refused:
        rig.settings(play=path)
    assert str(refused.value) == f"{path}: line 6: timeline.1: {words}"


async def test_timeline_without_plugin_steps_runs_with_several_device_plugins(rig: Rig) -> None:
    rig.file.write_text(BOTH + TWO)
    await rig.serve(play=story(rig, "{inject: xid/95, device: gpu-0}"))
    await registered(rig)
    assert await ends(rig) == []
    assert (await rig.told("state", DRIVER))["faults"] == {"gpu-0": ["xid/95"]}
