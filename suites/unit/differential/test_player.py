"""Plays of scripts on the reference: their snapshots and times."""

from collections.abc import Awaitable, Callable

import pytest

from differential.lane import Played, Readings
from differential.script import (
    DeletePod,
    EndStream,
    Garbage,
    Pod,
    Reading,
    Report,
    RestartKubelet,
    Silence,
    Start,
    StartPod,
    Stop,
    Use,
)
from differential.subjects import SharedRestart, play_on_reference
from drahealth.manager.profile import KEP
from drahealth.manager.releases import NEWEST
from drahealth.suites.unit.differential.scripts import script, unhealthy

GPU = "driver-0/gpu=gpu-0"


def readings(played: Played, pod: str = "pod-0") -> list[tuple[int, str, Readings]]:
    return [
        (seen.step, seen.moment, (seen.pods[pod].containers["container-0"] or {})["claim:claim-0"])
        for seen in played.snapshots
        if pod in seen.pods
    ]


async def test_a_change_is_pushed_and_a_stale_device_shows_at_the_sync() -> None:
    played = await play_on_reference(script(unhealthy("hot", timeout=2, pause=3)), NEWEST)
    assert readings(played) == [
        (-1, "synced", {GPU: ("Healthy", "")}),
        (0, "pushed", {GPU: ("Unhealthy", "hot")}),
        (0, "synced", {GPU: ("Unknown", "")}),
    ]


@pytest.mark.parametrize("step", [EndStream(0, "INTERNAL"), Garbage(0, "ff")])
async def test_an_ended_stream_shows_at_the_sync_and_is_reopened(step: EndStream | Garbage) -> None:
    played = await play_on_reference(script(step), NEWEST)
    assert [(moment, reading[GPU][0]) for _, moment, reading in readings(played)[1:]] == [
        ("pushed", "Healthy"),
        ("synced", "Unknown"),
        ("recovered", "Healthy"),
    ]
    assert [seen.streams["driver-0"] for seen in played.snapshots] == [1, 1, 1, 2]


async def test_an_unimplemented_stream_is_not_reopened() -> None:
    played = await play_on_reference(script(EndStream(0, "UNIMPLEMENTED")), NEWEST)
    assert (played.snapshots[-1].moment, played.snapshots[-1].streams) == ("recovered", {"driver-0": 1})


async def test_instances_start_and_stop_and_pods_are_created_and_deleted() -> None:
    pods = (Pod(((Use(0),),)), Pod(((Use(0),),), later=True))
    played = await play_on_reference(
        script(Start(0, 1), Stop(0), StartPod(1), DeletePod(0), Silence(1), pods=pods), NEWEST
    )
    assert [(seen.step, sorted(seen.pods)) for seen in played.snapshots if seen.moment == "synced"] == [
        (-1, ["pod-0"]), (0, ["pod-0"]), (1, ["pod-0"]), (2, ["pod-0", "pod-1"]), (3, ["pod-1"]), (4, ["pod-1"])
    ]  # fmt: skip
    assert played.snapshots[-1].streams == {"driver-0": 1, "driver-0b": 1}


async def test_a_pod_with_a_rejected_status_is_stuck() -> None:
    played = await play_on_reference(script(unhealthy("é" * 600), unhealthy("hot")), NEWEST)
    assert [(seen.moment, seen.pods["pod-0"].stuck) for seen in played.snapshots if seen.moment == "synced"] == [
        ("synced", False),
        ("synced", True),
        ("synced", False),
    ]


async def test_a_kubelet_restart_reopens_the_stream() -> None:
    played = await play_on_reference(script(unhealthy("hot"), RestartKubelet()), KEP)
    assert [seen.streams["driver-0"] for seen in played.snapshots] == [1, 1, 1, 2, 2]


async def test_a_change_during_an_unobserved_silence_shows_at_the_next_push() -> None:
    other = Report(0, (Reading("pool", "other", 1),))
    played = await play_on_reference(script(unhealthy(timeout=6), Silence(7, looks=False), other), NEWEST)
    assert [(step, moment, reading[GPU][0]) for step, moment, reading in readings(played)[2:]] == [
        (0, "synced", "Unhealthy"),
        (2, "pushed", "Unknown"),
        (2, "synced", "Unknown"),
    ]


async def test_a_following_play_reaches_each_mark_no_earlier_than_the_first() -> None:
    story = script(unhealthy(), Silence(1))
    slow = {"0 action": 5.0, "0 pushed": 6.5, "1 action": 20.0, "1 synced": 23.0}
    followed = await play_on_reference(story, NEWEST, slow)
    assert all(slow[mark] <= followed.times[mark] < slow[mark] + 1 for mark in slow)


async def test_a_shared_restart_happens_once_after_all_plays_reach_it() -> None:
    restarts: list[int] = []

    async def restart() -> None:
        restarts.append(len(came))

    together, came = SharedRestart(restart, 3), list[str]()

    async def play(name: str, goes: Callable[[], Awaitable[None]]) -> None:
        came.append(name)
        await goes()
        await together.leave()

    import asyncio

    async def nothing() -> None:
        """A play that ends before its restart."""

    await asyncio.gather(play("a", together.restart), play("b", nothing), play("c", together.restart))
    assert restarts == [3]


@pytest.mark.long
async def test_a_pod_with_a_rejected_first_status_is_stuck_and_never_runs() -> None:
    pods = (Pod(((Use(0),),)), Pod(((Use(0),),), later=True))
    played = await play_on_reference(script(unhealthy("é" * 600), StartPod(1), unhealthy("hot"), pods=pods), NEWEST)
    assert [(seen.moment, seen.pods["pod-1"].phase, seen.pods["pod-1"].stuck) for seen in played.snapshots[3:]] == [
        ("pushed", "Pending", False),
        ("synced", "Pending", True),
        ("pushed", "Running", True),
        ("synced", "Running", False),
    ]
