"""`drahealth play` on the reference: the effects of timeline steps."""

import json
import re
from itertools import groupby
from pathlib import Path
from xml.etree import ElementTree

import pytest

from drahealth.fakes.inventory.devices import Inventory
from drahealth.fakes.timelines.model import DeviceMessage, Message
from drahealth.fakes.timelines.play import report_of, stories
from drahealth.proto.events import ReportSent, Restarted, StatusSeen, Step
from drahealth.proto.history import read_history
from drahealth.proto.values import DeviceHealth, Health
from drahealth.suites.run.scenario import scenario_of
from drahealth.suites.run.timelines import as_scenario
from drahealth.suites.unit.suites.test_command import drahealth
from drahealth.suites.unit.suites.test_play import write


def test_every_verb_is_played(tmp_path: Path) -> None:
    steps = """timeline:
  - {set: {health: Unhealthy, message: set by hand, timeout: 60s, heartbeat: 5s}, device: gpu-1}
  - {expect: {device: gpu-1, health: Unhealthy, message: set by hand}}
  - {set: {health: Healthy, message: ""}, device: gpu-1}
  - {stream: {partial: true}, for: 1s}
  - {stream: {delay: 1s}, for: 2s}
  - {stream: {skew: -5m}, for: 1s}
  - {stream: {duplicate: 100%}, for: 1s}
  - {stream: {silence: 3s}}
  - {stream: {close: UNAVAILABLE}}
  - {after: 8s, driver: {restart: {offer: [v1alpha1]}}}
  - {driver: restart}
  - {driver: {upgrade: {overlap: 1s}}}
  - {driver: unregister}
  - {after: 3s, driver: stop, for: 2s}
  - {plugin: {health: Unhealthy}, device: gpu-0}
  - {expect: {device: gpu-0, of: plugin, health: Unhealthy}}
  - {plugin: {listed: false}, device: gpu-1}
  - {expect: {device: gpu-1, of: plugin, health: Unknown}, within: resync}
  - {plugin: restart}
  - {plugin: stop, for: 2s}
  - {inject: xid/46, device: gpu-0}
  - {recover: {action: reboot, takes: 5s}}
  - {expect: {device: gpu-0, health: Healthy}}
  - {kubelet: restart}
  - {kubelet: stop, for: 3s}
  - {when: {calls: 1, method: NodePrepareResources}, mark: it was prepared}
  - {after: 5s, expect: {health: Healthy, message: ""}, within: restart}
always:
  - {driver: start}
  - {reset: true}
"""
    done = drahealth("play", write(tmp_path, steps))
    assert done.returncode == 0, done.stdout


UNREGISTERED = """timeline:
  - {driver: unregister, for: 10s}
  - {at: 3s, inject: xid/95, device: gpu-0}
  - {at: 11s, expect: {device: gpu-0, health: Unhealthy, message: "XID 95*"}, within: start}
  - {driver: unregister}
  - {after: 3s, recover: reboot}
  - {driver: start}
  - {driver: start}
  - {expect: {device: all, health: Healthy, message: ""}, within: start}
"""


def test_a_deregistered_driver_registers_again_when_it_must_run(tmp_path: Path) -> None:
    done = drahealth("play", write(tmp_path, UNREGISTERED))
    assert done.returncode == 0, done.stdout


SET_IN_PARTS = """use: {workload: {devices: 1}}
timeline:
  - {device: all, set: {health: Unhealthy, message: broken}}
  - {device: all, set: {timeout: 60s}}
  - {after: 1s, expect: {device: held, health: Unhealthy, message: broken}}
  - {device: all, set: {health: Unknown}}
  - {device: all, set: {message: lost}}
  - {after: 1s, expect: {device: held, health: Unknown, message: lost}, holds: 2s}
"""


def test_a_set_step_keeps_unnamed_values(tmp_path: Path) -> None:
    done = drahealth("play", write(tmp_path, SET_IN_PARTS), "--histories", str(tmp_path))
    assert done.returncode == 0, done.stdout
    events = [record.what for record in read_history(tmp_path / "a story.jsonl").records]
    said = [event.devices for event in events if isinstance(event, ReportSent)]
    told = [(d.health, d.message, d.timeout) for devices in said for d in devices if d.device == "gpu-1"]
    assert told[-1] == (Health.UNKNOWN, "lost", 60)
    assert Health.HEALTHY not in [health for health, _, timeout in told if timeout == 60]


KUBELET_AWAY = """timeline:
  - {expect: {device: gpu-0, health: Healthy}}
  - {kubelet: stop}
  - {inject: xid/95, device: gpu-0}
  - {expect: {device: gpu-0, health: Healthy}, holds: 20s}
  - {kubelet: start}
  - {expect: {device: gpu-0, health: Unhealthy, message: "XID 95*"}, within: restart}
  - {kubelet: stop}
  - {kubelet: restart}
  - {reset: true}
  - {expect: {device: gpu-0, health: Healthy, message: ""}, within: restart}
  - {kubelet: stop}
  - {inject: xid/95, device: gpu-1}
"""


def test_changes_without_a_kubelet_show_after_its_start(tmp_path: Path) -> None:
    done = drahealth("play", write(tmp_path, KUBELET_AWAY), "--histories", str(tmp_path))
    assert done.returncode == 0, done.stdout
    events = [record.what for record in read_history(tmp_path / "a story.jsonl").records]
    restarts = [number for number, event in enumerate(events) if isinstance(event, Restarted)]
    assert len([number for number in restarts if number < events.index(Step("the scenario ends"))]) == 3


TRUE_BEFORE = """timeline:
  - {expect: {device: gpu-0, health: Healthy}}
  - {inject: xid/48, device: all}
  - {expect: {device: all, health: Unhealthy}}
  - {expect: {device: gpu-0, message: "XID 48*"}}
  - {recover: app-restart, device: gpu-0}
  - {expect: {device: gpu-1, health: Unhealthy}}
  - {expect: {device: gpu-0, health: Unhealthy}, holds: 1s}
  - {expect: {device: gpu-0, health: Unhealthy}, within: resync}
  - {recover: reboot, device: gpu-1}
  - {clear: xid/95, device: gpu-1}
  - {expect: {device: gpu-1, health: Healthy}}
  - {stream: {partial: true}}
  - {expect: {device: held, message: "*"}, within: restart}
  - {reset: true}
  - {expect: {device: all, health: Healthy}}
"""


def test_expect_that_was_true_before_the_step_passes_with_a_note(tmp_path: Path) -> None:
    path = write(tmp_path, TRUE_BEFORE)
    given = ("--report", "r.json", "--junitxml", "j.xml", "--histories", "h")
    done = drahealth("play", path, *given, folder=tmp_path)
    (result,) = json.loads((tmp_path / "r.json").read_text())["scenarios"]
    notes = [note for note in result["notes"] if "already true before the step" in note]
    assert [note.split(";")[0].partition("line ")[2] for note in notes] == [
        "11, timeline.7 was already true before the step timeline.4 (recover)",
        "16, timeline.12 was already true before the step timeline.11 (stream partial)",
    ]
    properties = ElementTree.parse(tmp_path / "j.xml").iter("property")
    assert [one.get("value") for one in properties if one.get("name") == "note"] == notes
    assert (notes[0] in done.stdout, "timeline.7: gpu-0" in (tmp_path / "h/a story.jsonl").read_text()) == (True, True)


def test_effect_of_the_last_step_is_printed(tmp_path: Path) -> None:
    done = drahealth("play", write(tmp_path, "timeline: [{inject: xid/48, device: gpu-1}]"))
    # A pod that started before the first report has shown Unknown.
    assert re.search(r"showed gpu-1: .*Unhealthy 'XID 48", done.stdout)


STOPPED = "{kubelet: stop}, {expect: {health: Healthy}}, {kubelet: start}"
TOLD = "{kubelet: stop}, {reset: true}, {kubelet: start}"


@pytest.mark.parametrize(
    ("steps", "needs"),
    [
        ("{mark: x}", set()),
        ("{kubelet: restart}", {"restart-kubelet"}),
        (STOPPED, {"stop-kubelet"}),
        (STOPPED.replace("expect", "mark: x}, {reset: true}, {expect"), {"stop-kubelet", "control-without-kubelet"}),
        ("{kubelet: stop}", {"stop-kubelet", "control-without-kubelet"}),
    ],
)
def test_a_timeline_needs_the_capabilities_of_its_steps(tmp_path: Path, steps: str, needs: set[str]) -> None:
    (story,) = stories(Path(write(tmp_path, f"timeline: [{steps}]\nalways: [{{reset: true}}]\n")))
    found = scenario_of(as_scenario(story))
    assert found
    assert {capability.value for capability in found.all_needs} == needs


def test_a_health_of_a_divided_device_applies_to_its_partitions(tmp_path: Path) -> None:
    steps = """use: {inventory: [{name: gpu, partitions: [{name: mig, count: 2}]}]}
timeline:
  - {set: {health: Unhealthy, message: by hand}, device: all}
  - {expect: {device: gpu/mig-1, health: Unhealthy, message: by hand}}
  - {expect: {device: gpu, health: Unhealthy}}
  - {plugin: {health: Unhealthy}, device: gpu}
  - {expect: {device: gpu/mig-0, of: plugin, health: Unhealthy}}
"""
    done = drahealth("play", write(tmp_path, steps))
    assert done.returncode == 0, done.stdout + done.stderr


KEEPS_FAILING = """use: {workload: {kind: ReplicaSet, devices: 1}}
timeline:
  - {pod: keeps-failing, for: 15s}
  - {after: 40s, expect: {device: held, health: Healthy}}
  - {pod: keeps-failing}
  - {after: 30s, pod: deleted}
  - {after: 12s, expect: {device: held, health: Healthy}}
"""


def test_a_pod_fails_repeatedly_until_it_may_run_or_is_replaced(tmp_path: Path) -> None:
    done = drahealth("play", write(tmp_path, KEEPS_FAILING), "--histories", str(tmp_path))
    assert done.returncode == 0, done.stdout
    seen = [r.what for r in read_history(tmp_path / "a story.jsonl").records if isinstance(r.what, StatusSeen)]
    pods = dict.fromkeys(status.pod for status in seen)
    told = [[c.state for s in seen if s.pod == pod and s.phase == "Running" for c in s.containers] for pod in pods]
    back_offs = [[state for state, _ in groupby(states)].count("CrashLoopBackOff") for states in told]
    assert back_offs == [3, 0]


FAILS_TWICE = """
from drahealth.suites.errors import HarnessError
from drahealth.suites.targets.reference.target import ReferenceTarget

ended, end = [], ReferenceTarget.end_container

async def ends_twice(self, *given):
    if len(ended) > 2:
        raise HarnessError("it does not end")
    ended.append(given)
    await end(self, *given)

ReferenceTarget.end_container = ends_twice
"""
CANNOT_FAIL = """timeline:
  - {inject: xid/95, device: gpu-0}
  - {pod: keeps-failing}
  - {after: 300s, mark: never}
always:
  - {mark: the end}
  - {reset: true}
"""


@pytest.mark.long
def test_a_pod_that_cannot_fail_ends_the_timeline_but_not_its_always_steps(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    done = drahealth("play", write(tmp_path, CANNOT_FAIL), "--report", str(report), before=FAILS_TWICE)
    (found,) = json.loads(report.read_text())["scenarios"]
    assert (found["where"], done.returncode) == ("a.timeline.yaml line 6, timeline.2", 3)
    assert found["problem"] == "a.timeline.yaml line 6, timeline.2: it does not end"
    assert "reports gpu-0 Healthy" in found["history"].partition("# always.1: reset")[2]


DEVICES = Inventory.of(1, partitions=1)


def test_a_message_names_devices_as_in_the_api() -> None:
    said = {"devices": [{"device": "gpu-0/mig-0", "health": Health.HEALTHY}, {"device": "o/ther", "pool": ""}]}
    assert report_of(Message.model_validate(said), "node-a", 1000.0, DEVICES) == [
        DeviceHealth("node-a", "gpu-0-mig-0", Health.HEALTHY),
        DeviceHealth("", "o/ther", Health.UNKNOWN),
    ]


def test_an_unknown_health_is_sent_as_bytes() -> None:
    said = {"device": "d", "health": 99, "message": {"length": 2}, "updated": "-10s", "timeout": "5s"}
    assert (
        report_of(DeviceMessage.model_validate(said), "p", 1000.0, DEVICES)
        == "0a130a060a0170120164106318de0720052a027878"
    )
