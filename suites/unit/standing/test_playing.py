"""Timelines that are played on a driver of a file."""

from pathlib import Path

import grpc.aio
import pytest

from drahealth.fakes.complaint import Complaint
from drahealth.fakes.hardware.news import Line
from drahealth.proto.services import NOTIFY_REGISTRATION
from drahealth.proto.sockets import target
from drahealth.suites.unit.manager.rig import until
from drahealth.suites.unit.standing.rig import DRIVER, PATIENCE, TWO, Rig

HEAD = "format: fault-timeline/v1\nname: story\nseed: 7\ntimeline:\n"


def story(rig: Rig, *steps: str, more: str = "") -> Path:
    """A timeline with these steps."""
    path = rig.root / "story.timeline.yaml"
    path.write_text(HEAD + "".join(f"  - {step}\n" for step in steps) + more)
    return path


async def registered(rig: Rig) -> None:
    """A kubelet tells the driver so."""
    path = rig.root / f"plugins_registry/{DRIVER}-reg.sock"
    async with grpc.aio.insecure_channel(target(path)) as channel:
        await NOTIFY_REGISTRATION.stub(channel)(NOTIFY_REGISTRATION.request(plugin_registered=True), timeout=PATIENCE)


def told(rig: Rig, *events: str) -> list[Line]:
    """What was told of these events."""
    return [line for _, line in rig.heard if line["event"] in events]


async def played(rig: Rig, path: Path, **given: object) -> list[Line]:
    """What the story has told, once it is over."""
    await rig.serve(play=path, **given)
    await registered(rig)
    await until(lambda: told(rig, "story-ends"), PATIENCE)
    return told(rig, "step", "step-failed")


async def test_a_story_is_played_from_when_the_driver_is_registered(rig: Rig) -> None:
    path = story(rig, "{inject: xid/79, device: gpu-0}", "{after: 10s, recover: reboot, device: gpu-0}")
    await rig.serve(play=path, speed=100.0)
    assert told(rig, "story-begins") == []
    await registered(rig)
    await until(lambda: told(rig, "step"), PATIENCE)
    assert (await rig.told("state"))["faults"] in ({"gpu-0": ["xid/79"]}, {})  # it is fast
    await until(lambda: told(rig, "story-ends"), PATIENCE)
    assert [(line["do"], line["device"], line["at"]) for line in told(rig, "step")] == [
        ("inject", "gpu-0", 0.0),
        ("recover", "gpu-0", 10.0),
    ]
    assert ((await rig.told("state"))["faults"], told(rig, "story-begins")[0]["seed"]) == ({}, 7)


async def test_it_sets_devices_faults_streams_and_leads_the_drivers_life(rig: Rig) -> None:
    steps = ("{set: {heartbeat: 3s}}", "{set: {message: odd}, device: gpu-1}", "{stream: {drop: 20%}}")
    lives = ("{driver: crash}", "{driver: running}", "{driver: restart}", "{driver: unregister}", "{driver: stop}")
    assert [line["event"] for line in await played(rig, story(rig, *steps, *lives))] == ["step"] * 8
    state, devices = await rig.told("state"), await rig.told("devices")
    assert (state["running"], devices[1]["message"], rig.sockets()) == (False, "odd", ["control.sock"])


async def test_what_a_pod_is_to_show_is_nobodys_business_there(rig: Rig) -> None:
    step = "{expect: {device: held, health: Unhealthy}, within: 1s}"
    assert await played(rig, story(rig, step, "{mark: over}", more="use: {workload: {devices: 1}}\n")) == [
        {"event": "step", "at": 0.0, "do": "mark", "what": "over", "step": "timeline.1"}
    ]


async def test_it_taints_devices_and_takes_taints_away(rig: Rig) -> None:
    sick, odd = "{taint: {key: sick, effect: NoExecute}, device: gpu-0}", "{taint: {key: odd}, device: gpu-1, for: 1ms}"
    assert [line["event"] for line in await played(rig, story(rig, sick, odd))] == ["step"] * 3
    taint = {"key": "sick", "value": "", "effect": "NoExecute"}
    assert (await rig.told("state"))["taints"] == {"gpu-0": [taint]}


async def test_what_cannot_be_done_is_told_of_and_the_story_goes_on(rig: Rig) -> None:
    path = story(rig, "{inject: xid/46, device: gpu-0}", "{inject: xid/48, device: gpu-1}")
    await rig.serve(play=path)
    await rig.told("inject", fault="xid/46", device="gpu-0")
    await registered(rig)
    await until(lambda: told(rig, "story-ends"), PATIENCE)
    (failed,) = told(rig, "step-failed")
    assert (failed["step"], failed["why"]) == ("timeline.0", "gpu-0 has xid/46 already")
    assert failed["where"] == "story.timeline.yaml line 5, timeline.0"
    assert (await rig.told("state"))["faults"] == {"gpu-0": ["xid/46"], "gpu-1": ["xid/48"]}


async def test_a_story_that_waits_for_its_end_does_not_hold_up_the_process(rig: Rig) -> None:
    more = "always:\n  - {after: 1h, recover: all}\n"
    path = story(rig, "{inject: xid/79, device: gpu-0}", "{after: 1h, mark: never}", more=more)
    await rig.serve(play=path)
    await registered(rig)
    await until(lambda: told(rig, "step"), PATIENCE)
    await rig.end()
    assert (rig.sockets(), await rig.slices()) == ([], 0)


@pytest.mark.parametrize(
    ("step", "words"),
    [
        ("{inject: xid/79, device: gpu-7}", "timeline.0: no device is called 'gpu-7'; there are gpu-0"),
        ("{kubelet: restart}", "timeline.0: a process plays no `kubelet`; leave the step out"),
        ("{pod: keeps-failing}", "timeline.0: a process plays no `pod`; leave the step out"),
        ("{driver: upgrade}", "timeline.0: the driver of a process does not upgrade so; it can crash, stop"),
        ("{driver: {restart: {offer: [v1alpha1]}}}", "timeline.0: the driver of a process does not restart so"),
        ("{when: {calls: 3}, mark: now}", "timeline.0: a process knows no `when`; say `at` or `after`"),
        ("{fly: high}", "nothing is called so here"),
    ],
)
async def test_what_a_process_cannot_play_is_refused_before_it_begins(rig: Rig, step: str, words: str) -> None:
    path = story(rig, step)
    with pytest.raises(Complaint) as refused:
        rig.settings(play=path)
    assert words in str(refused.value)


async def test_all_that_a_process_cannot_play_is_told_at_once(rig: Rig) -> None:
    path = story(rig, "{kubelet: restart}", "{mark: fine}", "{driver: upgrade}")
    with pytest.raises(Complaint) as refused:
        rig.settings(play=path)
    assert [line.split(": ")[1] for line in str(refused.value).splitlines()] == ["timeline.0", "timeline.2"]


async def test_a_story_of_another_catalogue_or_of_several_drivers_is_refused(rig: Rig) -> None:
    path = story(rig, "{inject: xid/79, device: gpu-0}")
    with pytest.raises(Complaint, match="story has the policy nvidia-catalogue, and the driver nvsentinel; give --pol"):
        rig.settings(play=path, policy="nvsentinel")
    rig.file.write_text(TWO)
    with pytest.raises(Complaint, match="a timeline is played on one driver, and there are 2"):
        rig.settings(play=path)
    with pytest.raises(Complaint, match="a timeline is played at a speed above 0, not 0"):
        rig.settings(play=path, speed=0.0)
