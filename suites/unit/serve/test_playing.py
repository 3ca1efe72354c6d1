"""Timelines that are played on a driver of a file."""

from pathlib import Path
from typing import Any

import grpc.aio
import pytest

from drahealth.fakes.cluster.api import PODS, ApiError, Kind, Object, Snapshot
from drahealth.fakes.cluster.api_server.lists import Matches, everything
from drahealth.fakes.cluster.api_server.server import ApiServer
from drahealth.fakes.program.errors import CommandError
from drahealth.proto.services import NOTIFY_REGISTRATION
from drahealth.proto.sockets import target
from drahealth.suites.unit.endings import PATIENCE
from drahealth.suites.unit.manager.rig import until
from drahealth.suites.unit.serve.rig import DRIVER, TWO, Rig
from drahealth.suites.unit.serve.test_pod_annotations import World, pod

HEAD = "format: fault-timeline/v1\nname: story\nseed: 7\ntimeline:\n"


def story(rig: Rig, *steps: str, more: str = "") -> Path:
    """A timeline with these steps."""
    path = rig.root / "story.timeline.yaml"
    path.write_text(HEAD + "".join(f"  - {step}\n" for step in steps) + more)
    return path


async def registered(rig: Rig, instance: str = "") -> None:
    """Sends the driver its registration status, as a kubelet does.

    The timeline starts with that call. A driver that crashes in its first step may not answer the call.
    """
    path = rig.root / f"plugins_registry/{'-'.join(filter(None, (DRIVER, instance)))}-reg.sock"
    assert await until(path.is_socket, PATIENCE)
    async with grpc.aio.insecure_channel(target(path)) as channel:
        call = NOTIFY_REGISTRATION.stub(channel)
        try:
            await call(NOTIFY_REGISTRATION.request(plugin_registered=True), timeout=PATIENCE)
        except grpc.aio.AioRpcError as error:
            if error.code() is not grpc.StatusCode.UNAVAILABLE:
                raise


def told(rig: Rig, *events: str) -> list[dict[str, Any]]:
    """The recorded events of these kinds."""
    return [line for _, line in rig.heard if line["event"] in events]


async def played(rig: Rig, path: Path, **given: object) -> list[dict[str, Any]]:
    """What the story has told, once it is over."""
    await rig.serve(play=path, **given)
    await registered(rig)
    await until(lambda: told(rig, "timeline-ended"), PATIENCE)
    return told(rig, "step-started", "step-failed")


async def test_timeline_starts_when_the_driver_is_registered(rig: Rig) -> None:
    path = story(rig, "{inject: xid/79, device: gpu-0}", "{after: 10s, recover: reboot, device: gpu-0}")
    await rig.serve(play=path, speed=100.0)
    assert told(rig, "timeline-started") == []
    await registered(rig)
    await until(lambda: told(rig, "step-started"), PATIENCE)
    assert (await rig.told("state"))["faults"] in ({"gpu-0": ["xid/79"]}, {})  # it is fast
    await until(lambda: told(rig, "timeline-ended"), PATIENCE)
    assert [(line["do"], line["device"], line["due"]) for line in told(rig, "step-started")] == [
        ("inject", "gpu-0", 0.0),
        ("recover", "gpu-0", 10.0),
    ]
    assert ((await rig.told("state"))["faults"], told(rig, "timeline-started")[0]["seed"]) == ({}, 7)


async def test_timeline_sets_devices_and_streams_and_stops_the_driver(rig: Rig) -> None:
    steps = ("{set: {heartbeat: 3s}}", "{set: {message: odd}, device: gpu-1}", "{stream: {drop: 20%}}")
    lives = ("{driver: crash}", "{driver: start}", "{driver: restart}", "{driver: unregister}", "{driver: stop}")
    assert [line["event"] for line in await played(rig, story(rig, *steps, *lives))] == ["step-started"] * 8
    state, devices = await rig.told("state"), await rig.told("devices")
    assert (state["running"], devices[1]["message"], rig.sockets()) == (False, "odd", ["control.sock"])


async def test_timeline_with_a_workload_is_played_with_existing_pods(rig: Rig) -> None:
    step = "{expect: {device: held, health: Unhealthy}, within: 10ms}"
    lines = await played(rig, story(rig, step, "{mark: over}", more="use: {workload: {devices: 1}}\n"))
    assert [(line["due"], line["do"], line["what"], line["step"]) for line in lines] == [
        (0.0, "mark", "over", "timeline.1")
    ]


async def test_timeline_adds_taints_and_removes_timed_taints(rig: Rig) -> None:
    sick, odd = "{taint: {key: sick, effect: NoExecute}, device: gpu-0}", "{taint: {key: odd}, device: gpu-1, for: 1ms}"
    assert [line["event"] for line in await played(rig, story(rig, sick, odd))] == ["step-started"] * 3
    taint = {"key": "sick", "value": "", "effect": "NoExecute"}
    assert (await rig.told("state"))["taints"] == {"gpu-0": [taint]}


async def test_failed_step_is_reported_and_the_timeline_continues(rig: Rig) -> None:
    path = story(rig, "{inject: xid/46, device: gpu-0}", "{inject: xid/48, device: gpu-1}")
    await rig.serve(play=path)
    await rig.told("inject", fault="xid/46", device="gpu-0")
    await registered(rig)
    await until(lambda: told(rig, "timeline-ended"), PATIENCE)
    (failed,) = told(rig, "step-failed")
    assert (failed["step"], failed["why"]) == ("timeline.0", "gpu-0 already has xid/46")
    assert failed["where"] == "story.timeline.yaml line 5, timeline.0"
    assert (await rig.told("state"))["faults"] == {"gpu-0": ["xid/46"], "gpu-1": ["xid/48"]}


async def test_waiting_timeline_does_not_delay_the_end_of_the_process(rig: Rig) -> None:
    more = "always:\n  - {after: 1h, reset: true}\n"
    path = story(rig, "{inject: xid/79, device: gpu-0}", "{after: 1h, mark: never}", more=more)
    await rig.serve(play=path)
    await registered(rig)
    await until(lambda: told(rig, "step-started"), PATIENCE)
    await rig.end()
    assert (rig.sockets(), await rig.slices()) == ([], 0)


@pytest.mark.parametrize(
    ("step", "words"),
    [
        ("{inject: xid/79, device: gpu-7}", "timeline.0.device: "),
        ("{kubelet: restart}", "timeline.0: --play does not support `kubelet`; remove the step"),
        ("{pod: keeps-failing}", "timeline.0: --play does not support `pod`; remove the step"),
        ("{expect: {pod_writes: {max: 3}}}", "timeline.0: --play does not support `pod_writes`"),
        ("{fly: high}", "unknown key"),
    ],
)
async def test_unsupported_steps_are_rejected_before_the_start(rig: Rig, step: str, words: str) -> None:
    path = story(rig, step)
    with pytest.raises(CommandError) as refused:
        rig.settings(play=path)
    assert words in str(refused.value)


def waiting(device: str) -> str:
    return f"{{when: {{seen: Unhealthy, device: {device}}}, mark: seen}}"


async def test_wait_for_an_unknown_device_is_rejected(rig: Rig) -> None:
    more = "use: {inventory: [{name: gpu, count: 2}, {name: nic, count: 2}]}\n"
    path = story(
        rig, waiting("gpu-0"), waiting("nic-1"), waiting('"nic-*"'), waiting('"*-0"'), waiting("held"), more=more
    )
    with pytest.raises(CommandError) as refused:
        rig.settings(play=path)
    assert [line.split(": ", 2)[1:] for line in str(refused.value).splitlines()] == [
        ["line 6", "timeline.1.when.device: the driver has no device nic-1"],
        ["line 7", "timeline.2.when.device: the driver has no device nic-*"],
    ]


async def test_all_unsupported_steps_are_reported_together(rig: Rig) -> None:
    path = story(rig, "{kubelet: restart}", "{mark: fine}", "{plugin: restart}")
    with pytest.raises(CommandError) as refused:
        rig.settings(play=path)
    told = [line.split(": ")[1:3] for line in str(refused.value).splitlines()]
    assert told == [["line 5", "timeline.0"], ["line 7", "timeline.2"]]


async def test_steps_that_must_go_have_no_other_advice(rig: Rig) -> None:
    steps = (
        "{pod: deleted}",
        "{kubelet: stop}",
        "{driver: restart}",
        "{repeat: {times: 2, every: 1s, do: [pod: running]}}",
    )
    with pytest.raises(CommandError) as refused:
        rig.settings(play=story(rig, *steps))
    told = [line.split(": ", 3)[1:] for line in str(refused.value).splitlines()]
    assert told == [
        ["line 5", "timeline.0", "--play does not support `pod`; remove the step"],
        ["line 6", "timeline.1", "--play does not support `kubelet`; remove the step"],
        ["line 8", "timeline.3.repeat.do.0", "--play does not support `pod`; remove the step"],
    ]


async def test_timeline_with_another_policy_or_several_drivers_is_rejected(rig: Rig) -> None:
    path = story(rig, "{inject: xid/79, device: gpu-0}")
    with pytest.raises(CommandError, match="got nvidia-catalogue; pass --policy nvidia-catalogue"):
        rig.settings(play=path, policy="nvsentinel")
    rig.file.write_text(TWO)
    with pytest.raises(CommandError, match="--play needs a file with one driver, got 2 drivers"):
        rig.settings(play=path)
    with pytest.raises(CommandError, match="--speed must be above 0, got 0"):
        rig.settings(play=path, speed=0.0)


# -- what it waits for, and expects


def shows(health: str, message: str = "", name: str = "job", device: str = f"{DRIVER}/node-a/gpu-0") -> Object:
    """A pod whose container shows the device so."""
    resource = {"resourceID": device, "health": health, **({"message": message} if message else {})}
    status = {"name": "main", "allocatedResourcesStatus": [{"name": "claim:gpu", "resources": [resource]}]}
    return {**pod(name), "status": {"phase": "Running", "containerStatuses": [status]}}


async def shown(rig: Rig, pod_: Object) -> None:
    """Its status is that."""
    name = pod_["metadata"]["name"]
    there = next((found for found in await rig.api.list(PODS) if found["metadata"]["name"] == name), None)
    made = there or await rig.api.create(PODS, {key: pod_[key] for key in ("metadata", "spec")})
    await rig.api.replace_status(PODS, {**made, "status": pod_["status"]})


async def begins(rig: Rig, *steps: str, **given: object) -> None:
    """The story of these steps has begun."""
    await rig.serve(play=story(rig, *steps), **given)
    await registered(rig)
    assert await until(lambda: told(rig, "timeline-started"), PATIENCE)


async def ends(rig: Rig) -> list[tuple[str, str]]:
    """The result of each expectation at the end of the timeline."""
    assert await until(lambda: told(rig, "timeline-ended"), PATIENCE)
    outcomes = told(rig, "expectation-met", "expectation-failed")
    return [(line["event"].removeprefix("expectation-"), line.get("why", "")) for line in outcomes]


@pytest.mark.parametrize("device", [f"{DRIVER}/node-a/gpu-0", f"{DRIVER}/gpu=gpu-0"])
async def test_expect_passes_when_a_pod_shows_the_expected_health(rig: Rig, device: str) -> None:
    step = '{expect: {device: gpu-0, health: Unhealthy, message: "*bus"}, within: 1h}'
    await begins(rig, step, "{inject: xid/48, device: gpu-1}")
    await shown(rig, shows("Healthy", device=device))
    await shown(rig, shows("Unhealthy", "fallen off the bus", device=device))
    assert await ends(rig) == [("met", "")]
    assert (await rig.told("state"))["faults"] == {"gpu-1": ["xid/48"]}


async def test_failed_expect_reports_the_actual_health_and_the_timeline_continues(rig: Rig) -> None:
    await shown(rig, shows("Unhealthy", "odd"))
    await shown(rig, {**shows("Healthy", name="done"), "status": {**shows("Healthy")["status"], "phase": "Failed"}})
    step = "{expect: {device: gpu-0, health: Healthy}, within: 50ms, holds: 1s}"
    await begins(rig, step, "{expect: {device: gpu-1, health: Healthy}, within: 50ms}", metrics_port=0, speed=10.0)
    assert await ends(rig) == [("failed", "a pod shows Unhealthy 'odd'"), ("failed", "no pod shows it")]
    (first, _) = told(rig, "expectation-failed")
    assert (first["where"], first["expected"]) == (
        "story.timeline.yaml line 5, timeline.0",
        "gpu-0 Healthy within 50ms",
    )


async def test_expect_with_holds_fails_when_the_health_changes(rig: Rig) -> None:
    await shown(rig, shows("Healthy"))
    await begins(rig, "{expect: {device: gpu-0, health: Healthy}, within: 1h, holds: 1s}")
    await shown(rig, shows("Unknown"))
    assert await ends(rig) == [("failed", "a pod shows Unknown ''")]


async def test_expect_reports_a_forbidden_pod_watch_as_the_reason(rig: Rig) -> None:
    class Refusing(ApiServer):
        """It shows nobody its pods."""

        async def snapshot(self, kind: Kind, namespace: str | None = None, matches: Matches = everything) -> Snapshot:
            if kind == PODS:
                raise ApiError(403, "Forbidden", "pods is forbidden")
            return await super().snapshot(kind, namespace, matches)

    rig.api = Refusing()
    await begins(rig, "{expect: {device: gpu-0, health: Healthy}, within: 50ms}")
    assert await ends(rig) == [("failed", "pods cannot be watched: Forbidden: pods is forbidden")]


async def test_timeline_waits_until_a_pod_shows_the_health(rig: Rig) -> None:
    await begins(rig, "{when: {seen: Unhealthy, device: gpu-0}, inject: xid/48, device: gpu-1}")
    await shown(rig, shows("Healthy"))
    await shown(rig, shows("Unhealthy"))
    assert await ends(rig) == []
    assert (await rig.told("state"))["faults"] == {"gpu-1": ["xid/48"]}


async def test_timeline_waits_for_calls_of_the_driver(rig: Rig) -> None:
    await begins(rig, "{when: {calls: 2, method: NodePrepareResources}, inject: xid/48, device: gpu-1}")
    world = World(rig)
    await world.claim("gpu-0")
    assert not told(rig, "step-started", "timeline-ended")
    await world.claim("gpu-1", name="other")
    assert await ends(rig) == []
    assert (await rig.told("state"))["faults"] == {"gpu-1": ["xid/48"]}


async def test_timeline_upgrades_and_restarts_the_driver_with_other_health_apis(rig: Rig) -> None:
    path = story(rig, "{driver: {upgrade: {overlap: 1h, offer: [v1alpha1]}}}", "{driver: {restart: {offer: [v1]}}}")
    await rig.serve(play=path)
    await registered(rig)
    await registered(rig, "upgrade-1")
    assert await ends(rig) == []
    state = await rig.told("state")
    assert (state["instance"], state["health_apis"]) == ("upgrade-1", ["v1.DRAResourceHealth"])
    assert not told(rig, "step-failed")


async def test_expect_on_held_matches_any_device_of_the_driver(rig: Rig) -> None:
    await shown(rig, shows("Unhealthy", "odd", device=f"{DRIVER}/node-a/split-mig-1"))
    await begins(rig, "{expect: {device: held, health: Unhealthy}, within: 1h}")
    assert await ends(rig) == [("met", "")]


async def test_expect_that_was_true_before_the_step_is_met_with_a_note(rig: Rig) -> None:
    await shown(rig, shows("Healthy", "old"))
    old = "{expect: {device: gpu-0, message: old}, within: 1h}"
    await begins(rig, old, "{inject: xid/48, device: gpu-0}", old)
    assert await ends(rig) == [("met", ""), ("met", "")]
    first, second = (line["note"] for line in told(rig, "expectation-met"))
    assert (first, second[:41]) == ("", "already true before the step timeline.1 (")
