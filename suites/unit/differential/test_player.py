"""A script's play on the reference: what is seen, and when."""

from collections.abc import Awaitable, Callable

import pytest

from drahealth.manager.profile import KEP, V1_37
from drahealth.suites.differential.observation import Played, Readings
from drahealth.suites.differential.script import (
    DeletePod,
    EndStream,
    Garbage,
    Pod,
    Report,
    RestartKubelet,
    Said,
    Silence,
    Start,
    StartPod,
    Stop,
    Use,
)
from drahealth.suites.differential.venue import Together, play_on_reference
from drahealth.suites.unit.differential.scripts import script, unhealthy

GPU = "driver-0/gpu=gpu-0"


def readings(played: Played, pod: str = "pod-0") -> list[tuple[int, str, Readings]]:
    return [
        (seen.step, seen.moment, (seen.pods[pod].containers["container-0"] or {})["claim:claim-0"])
        for seen in played.snapshots
        if pod in seen.pods
    ]


async def test_a_change_is_pushed_and_a_stale_device_shows_at_the_sync() -> None:
    played = await play_on_reference(script(unhealthy("hot", timeout=2, pause=3)), V1_37)
    assert readings(played) == [
        (-1, "synced", {GPU: ("Healthy", "")}),
        (0, "pushed", {GPU: ("Unhealthy", "hot")}),
        (0, "synced", {GPU: ("Unknown", "")}),
    ]


@pytest.mark.parametrize("step", [EndStream(0, "INTERNAL"), Garbage(0, "ff")])
async def test_a_stream_that_ends_shows_at_the_sync_and_is_opened_again(step: EndStream | Garbage) -> None:
    played = await play_on_reference(script(step), V1_37)
    assert [(moment, reading[GPU][0]) for _, moment, reading in readings(played)[1:]] == [
        ("pushed", "Healthy"),
        ("synced", "Unknown"),
        ("recovered", "Healthy"),
    ]
    assert [seen.streams["driver-0"] for seen in played.snapshots] == [1, 1, 1, 2]


async def test_a_stream_that_is_not_implemented_is_not_opened_again() -> None:
    played = await play_on_reference(script(EndStream(0, "UNIMPLEMENTED")), V1_37)
    assert (played.snapshots[-1].moment, played.snapshots[-1].streams) == ("recovered", {"driver-0": 1})


async def test_instances_start_and_stop_and_pods_come_and_go() -> None:
    pods = (Pod(((Use(0),),)), Pod(((Use(0),),), later=True))
    played = await play_on_reference(
        script(Start(0, 1), Stop(0), StartPod(1), DeletePod(0), Silence(1), pods=pods), V1_37
    )
    assert [(seen.step, sorted(seen.pods)) for seen in played.snapshots if seen.moment == "synced"] == [
        (-1, ["pod-0"]), (0, ["pod-0"]), (1, ["pod-0"]), (2, ["pod-0", "pod-1"]), (3, ["pod-1"]), (4, ["pod-1"])
    ]  # fmt: skip
    assert played.snapshots[-1].streams == {"driver-0": 1, "driver-0b": 1}


async def test_a_status_that_the_api_server_refuses_is_stuck() -> None:
    played = await play_on_reference(script(unhealthy("é" * 600), unhealthy("hot")), V1_37)
    assert [(seen.moment, seen.pods["pod-0"].stuck) for seen in played.snapshots if seen.moment == "synced"] == [
        ("synced", False),
        ("synced", True),
        ("synced", False),
    ]


async def test_a_restart_of_the_kubelet_opens_the_stream_again() -> None:
    played = await play_on_reference(script(unhealthy("hot"), RestartKubelet()), KEP)
    assert [seen.streams["driver-0"] for seen in played.snapshots] == [1, 1, 1, 2, 2]


async def test_what_a_silence_without_a_look_hides_shows_when_something_else_is_pushed() -> None:
    other = Report(0, (Said("pool", "other", 1),))
    played = await play_on_reference(script(unhealthy(timeout=6), Silence(7, looks=False), other), V1_37)
    assert [(step, moment, reading[GPU][0]) for step, moment, reading in readings(played)[2:]] == [
        (0, "synced", "Unhealthy"),
        (2, "pushed", "Unknown"),
        (2, "synced", "Unknown"),
    ]


async def test_who_follows_comes_to_each_moment_no_earlier_than_the_one_followed() -> None:
    story = script(unhealthy(), Silence(1))
    slow = {"0 action": 5.0, "0 pushed": 6.5, "1 action": 20.0, "1 synced": 23.0}
    followed = await play_on_reference(story, V1_37, slow)
    assert all(slow[mark] <= followed.times[mark] < slow[mark] + 1 for mark in slow)


async def test_a_restart_comes_once_when_all_are_there_or_have_ended() -> None:
    restarts: list[int] = []

    async def restart() -> None:
        restarts.append(len(came))

    together, came = Together(restart, 3), list[str]()

    async def play(name: str, goes: Callable[[], Awaitable[None]]) -> None:
        came.append(name)
        await goes()
        await together.ended()

    import asyncio

    async def nothing() -> None:
        """A play that ends before it comes to its restart."""

    await asyncio.gather(play("a", together.restart), play("b", nothing), play("c", together.restart))
    assert restarts == [3]


async def test_a_pod_whose_first_status_is_refused_is_stuck_and_never_seen_to_run() -> None:
    pods = (Pod(((Use(0),),)), Pod(((Use(0),),), later=True))
    played = await play_on_reference(script(unhealthy("é" * 600), StartPod(1), unhealthy("hot"), pods=pods), V1_37)
    assert [(seen.moment, seen.pods["pod-1"].phase, seen.pods["pod-1"].stuck) for seen in played.snapshots[3:]] == [
        ("pushed", "Pending", False),
        ("synced", "Pending", True),
        ("pushed", "Running", True),
        ("synced", "Running", False),
    ]
