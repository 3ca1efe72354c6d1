"""Plays of scripts with device plugins on the reference."""

from differential.lane import Played
from differential.script import (
    EndList,
    Held,
    ListDevices,
    Listed,
    Plugin,
    Pod,
    RestartKubelet,
    Script,
    StartPlugin,
    StartPod,
    StopPlugin,
)
from differential.subjects import play_on_reference
from drahealth.manager.profile import KEP
from drahealth.manager.releases import NEWEST

SICK = ListDevices(0, (Listed("gpu-0", "ill"), Listed("gpu-1")))


def script(*steps: object, containers: tuple[tuple[Held, ...], ...] = ((Held(0),),)) -> Script:
    """A script with a device plugin with two devices, and a pod that holds some of them."""
    return Script((), (), (Pod(containers),), steps, (Plugin(("gpu-0", "gpu-1")),))  # type: ignore[arg-type]


def shown(played: Played, container: str = "container-0") -> list[tuple[int, str, dict[str, str]]]:
    """The health of the plugin's devices at each moment."""
    return [
        (seen.step, seen.moment, {name: health for name, (health, _) in (entries or {})["plugin-0/gpu"].items()})
        for seen in played.snapshots
        for entries in [seen.pods["pod-0"].containers[container]]
    ]


async def test_pushed_list_sets_missing_device_health_by_profile() -> None:
    missing = ListDevices(0, (Listed("gpu-1"),))
    assert shown(await play_on_reference(script(SICK, missing), NEWEST)) == [
        (-1, "synced", {"gpu-0": "Healthy"}),
        (0, "pushed", {"gpu-0": "Unhealthy"}),
        (0, "synced", {"gpu-0": "Unhealthy"}),
        (1, "pushed", {"gpu-0": "Unhealthy"}),
        (1, "synced", {"gpu-0": "Healthy"}),
    ]
    assert shown(await play_on_reference(script(SICK, missing), KEP))[-1] == (1, "synced", {"gpu-0": "Unknown"})


async def test_a_plugin_whose_list_ended_starts_again_after_a_stop() -> None:
    played = await play_on_reference(script(SICK, EndList(0), StopPlugin(0), StartPlugin(0)), KEP)
    assert [health["gpu-0"] for _, moment, health in shown(played) if moment == "synced"] == [
        "Healthy", "Unhealthy", "Unknown", "Unknown", "Unhealthy"
    ]  # fmt: skip


async def test_the_list_of_the_second_instance_replaces_the_first() -> None:
    played = await play_on_reference(script(SICK, StartPlugin(0, 1), StopPlugin(0, 1)), KEP)
    assert [health["gpu-0"] for _, moment, health in shown(played) if moment == "synced"] == [
        "Healthy", "Unhealthy", "Healthy", "Unhealthy"
    ]  # fmt: skip


async def test_plugins_list_their_devices_again_after_a_restart_of_the_kubelet() -> None:
    played = await play_on_reference(script(SICK, RestartKubelet()), KEP)
    assert shown(played)[-1] == (1, "synced", {"gpu-0": "Unhealthy"})


async def test_pods_get_devices_in_the_order_of_the_plugin() -> None:
    story = Script((), (), (Pod(((Held(0),),)), Pod(((Held(0),),), later=True)), (StartPod(1),), script().plugins)
    (*_, last) = (await play_on_reference(story, NEWEST)).snapshots
    held = [last.pods[pod].containers["container-0"] for pod in ("pod-0", "pod-1")]
    assert held == [{"plugin-0/gpu": {device: ("Healthy", "")}} for device in ("gpu-0", "gpu-1")]


async def test_each_container_gets_the_number_of_devices_that_it_requests() -> None:
    played = await play_on_reference(script(containers=((), (Held(0, 2),))), NEWEST)
    assert shown(played, "container-1") == [(-1, "synced", {"gpu-0": "Healthy", "gpu-1": "Healthy"})]
