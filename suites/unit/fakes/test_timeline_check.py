"""Well-formed timelines with unknown names or contradictory steps."""

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drahealth.fakes.faults.catalogue import CATALOGUES, policies
from drahealth.fakes.inventory.devices import Inventory
from drahealth.fakes.program.user_files import FileError
from drahealth.fakes.timelines.load import load
from drahealth.fakes.timelines.validation import checked_plan

HEAD = "format: fault-timeline/v1\nname: n\n"
ILL = "- {inject: xid/46, device: gpu-0}\n"


def problems(steps: str, use: str = "{}") -> list[str]:
    (loaded,) = load(f"{HEAD}use: {use}\ntimeline:\n{steps}")
    with pytest.raises(FileError) as error:
        checked_plan(loaded, Inventory.of(2))
    return [str(problem) for problem in error.value.problems]


def test_a_timeline_that_makes_sense_is_planned() -> None:
    (loaded,) = load(f"{HEAD}timeline: [{{inject: xid/79, device: gpu-0}}, {{recover: reboot, device: gpu-0}}]")
    assert [action.verb for action in checked_plan(loaded, Inventory.of(1)).actions] == ["inject", "recover"]


@pytest.mark.parametrize(
    ("step", "problem"),
    [
        ("inject: xid/97, device: gpu-0", "timeline.0.inject: "),
        ("recover: gpu-rset", "timeline.0.recover: "),
        ("stream: {close: NOPE}", "timeline.0.stream.close: unknown gRPC status code 'NOPE'; valid: OK"),
        ("mark: a, within: push", "timeline.0.within: `within` is not allowed with mark, only with expect"),
        (
            "driver: crash, device: gpu-0",
            "timeline.0.device: `device` is not allowed with driver, only with inject, clear",
        ),
        (
            "repeat: {times: 1, every: 1s, do: [{mark: a}]}, for: 2s",
            "timeline.0.for: `for` is not allowed with",
        ),
        ("plugin: {health: Unhealthy}", "timeline.0.plugin: the report of a device plugin needs a device"),
        ("plugin: crash, device: gpu-0", "timeline.0.device: crash is for the whole device plugin"),
        ("expect: {of: plugin, message: hot}", "timeline.0.expect.message: a device plugin reports no message"),
        ("set: {health: Healthy, heartbeat: 2s}", "timeline.0.set: set needs `device` for health"),
        ("expect: {health: Healthy}, within: soon", "timeline.0.within: within must be push, resync, start"),
        ("driver: {restart: {offer: [v2]}}", "timeline.0.driver.restart.offer.0: "),
        ("taint: {key: a b}, device: gpu-0", "timeline.0.taint: a taint key "),
        ("taint: {key: a, value: b c}, device: gpu-0", "timeline.0.taint: a taint value "),
        ("untaint: '', device: gpu-0", "timeline.0.untaint: a taint key "),
        ("taint: {key: a}", "timeline.0: taint needs `device`"),
        ("untaint: a", "timeline.0: untaint needs `device`"),
        ("pod: deleted", "timeline.0.pod: `pod: deleted` needs a workload that replaces the pod"),
        ("pod: running, for: 1s", "timeline.0: pod "),
        ("inject: xid/79, device: held", "timeline.0.device: only `expect` can have `device: held`"),
        ("when: {seen: Healthy, device: gpu-9}, mark: a", "timeline.0.when.device: "),
        ("inject: xid/79, device: gpu-9", "timeline.0.device: "),
        ("flap: {device: gpu-9, down: xid/79, period: 2s, for: 9s}", "timeline.0.flap.device: "),
        ("expect: {device: gpu-9, health: Healthy}", "timeline.0.expect.device: "),
    ],
)
def test_unknown_names_are_reported_with_line_and_path(step: str, problem: str) -> None:
    (line,) = problems(f"- {{{step}}}\n")
    assert line.startswith(f"line 5: {problem}")


def test_unknown_catalogue_and_policy_are_reported_once() -> None:
    assert problems("- {inject: xid/79, device: gpu-0}\n", "{catalogue: foo, policy: strickt}") == [
        f"line 3: use.catalogue: unknown catalogue 'foo'; valid: {', '.join(CATALOGUES)}",
        f"line 3: use.policy: unknown policy 'strickt'; did you mean strict? valid: {', '.join(policies())}",
    ]


@pytest.mark.parametrize(
    ("devices", "problem"),
    [
        (1, "line 5: timeline.0: the pod holds 1 of these 2 devices; expect its device by name, or `held`"),
        (3, "line 3: use.workload.devices: devices must be at most 2, got 3"),
    ],
)
def test_workload_devices_are_checked_against_inventory_and_expectations(devices: int, problem: str) -> None:
    assert problems("- {expect: {health: Healthy}}\n", f"{{workload: {{devices: {devices}}}}}") == [problem]


@pytest.mark.parametrize(
    ("steps", "problem"),
    [
        (
            "- {taint: {key: a}, device: gpu-0}\n- {untaint: a, device: gpu-1}\n",
            "timeline.1: gpu-1 has no taint a at 0 s",
        ),
        (
            "- kubelet: stop\n- driver: restart\n",
            "timeline.1: the kubelet is not running at 0 s, so no driver can register",
        ),
        (
            "- kubelet: stop\n- kubelet: stop\n",
            "timeline.1: the kubelet is not running at 0 s, so `stop` is impossible",
        ),
        (
            "- kubelet: stop\n- pod: keeps-failing\n",
            "timeline.1: the kubelet is not running at 0 s, so pods do not change",
        ),
        ("- {pod: keeps-failing}\n- {pod: keeps-failing}\n", "timeline.1: the pod already keeps failing at 0 s"),
        (
            "- {inject: xid/79, device: gpu-0}\n- {inject: xid/79, device: gpu-0}\n",
            "timeline.1: gpu-0 already has xid/79 at 0 s",
        ),
        ("- driver: crash\n- driver: stop\n", "timeline.1: the driver is not running at 0 s, so `stop` is impossible"),
        (
            "- driver: {upgrade: {overlap: 2s}}\n- {after: 1s, driver: upgrade}\n",
            "timeline.1: the driver is already being upgraded at 1 s, until 2 s",
        ),
        (
            "- {expect: {device: gpu-0, health: Healthy}, holds: 9s}\n- {at: 3s, expect: {health: Unhealthy}}\n",
            "timeline.1: gpu-0 is expected Unhealthy at 3 s, but Healthy by timeline.0",
        ),
        (
            "- {inject: xid/79, device: gpu-0}\n- {inject: xid/95, device: gpu-0}\n",
            "timeline.1: the driver omits gpu-0 from reports at 0 s because of xid/79",
        ),
        (
            "- mark: a\n- {recover: reboot, device: gpu-0}\n",
            "timeline.1: no device of this step has a fault at 0 s",
        ),
        (
            "- driver: crash\n- stream: {close: UNAVAILABLE}\n",
            "timeline.1: the driver is not running at 0 s, so `close` has no stream",
        ),
        (
            f"{ILL}- parallel: [[{{recover: {{action: reboot, takes: 9s}}}}], [{{recover: reboot, after: 2s}}]]\n",
            "timeline.1.parallel.1.0: gpu-0 is already recovering at 2 s",
        ),
        (
            f"{ILL}- repeat: {{times: 3, every: 1s, do: [{{recover: app-restart}}, {ILL[2:-1]}]}}\n",
            "timeline.1.repeat.do.1: gpu-0 already has xid/46 at 0 s",
        ),
    ],
)
def test_contradictory_plan_is_rejected(steps: str, problem: str) -> None:
    assert problems(steps)[0].startswith(f"line 6: {problem}")


@pytest.mark.parametrize(
    "steps",
    [
        "- {inject: xid/46, device: gpu-0, probability: 50%}\n- {recover: reboot, device: gpu-0}\n",
        "- {inject: xid/46, device: {pick: 1}}\n- {recover: reboot, device: gpu-0}\n",
        f"{ILL}- {{recover: app-restart}}\n- {{recover: reboot}}\n{ILL}",
        f"{ILL}- recover: {{action: reboot, takes: 9s}}\n{ILL}",
        f"{ILL}- {{recover: gpu-reset, device: all}}\n",
        "- {taint: {key: a}, device: gpu-0}\n- {taint: {key: a}, device: gpu-0}\n- {untaint: a, device: gpu-0}\n",
        "- {kubelet: stop, for: 2s}\n- driver: restart\n- kubelet: restart\n",
        "- driver: upgrade\n- {after: 1s, driver: upgrade}\n- driver: restart\n- driver: upgrade\n",
        f"{ILL}- driver: upgrade\n- driver: {{restart: {{offer: [v1]}}}}\n- {{recover: reboot, device: gpu-0}}\n",
        "- {taint: {key: a}, device: {pick: 1}}\n- {untaint: a, device: gpu-0}\n",
        "- {pod: keeps-failing, for: 2s}\n- {pod: keeps-failing}\n- {when: {seen: Healthy, device: held}, mark: a}\n",
    ],
)
def test_possible_plan_is_accepted_with_any_seed(steps: str) -> None:
    (loaded,) = load(f"{HEAD}timeline:\n{steps}")
    assert all(checked_plan(loaded, Inventory.of(2), seed).actions for seed in range(20))


TOO_HOT = "- {set: {health: Unhealthy}, device: gpu-0}\n"


@pytest.mark.parametrize(
    ("steps", "expected", "of"),
    [
        ("- {inject: xid/48, device: gpu-0}\n", "gpu-0, health: Healthy", "(inject xid/48) makes it Unhealthy under"),
        ("- {inject: xid/48, device: all}\n", "held, health: Healthy", "timeline.0"),
        ("- {inject: xid/79, device: gpu-0}\n", "gpu-0, health: Healthy", "(inject xid/79) makes it Unhealthy"),
        ("- {inject: xid/13, device: gpu-0}\n", "gpu-0, health: Unhealthy", "(inject xid/13) makes it Healthy"),
        (f"{ILL}- {{recover: app-restart}}\n", "gpu-0, health: Healthy", "timeline.0 (inject xid/46)"),
        (f"{ILL}- {{recover: gpu-reset}}\n", "gpu-0, health: Unhealthy", "timeline.1 (recover gpu-reset)"),
        (f"{ILL}- {{recover: {{action: reboot, fails: true}}}}\n", "gpu-0, health: Healthy", "timeline.0"),
        (f"{ILL}- {{recover: {{action: reboot, claimed: true}}}}\n", "gpu-0, health: Unhealthy", "timeline.1"),
        (f"{ILL}- {{clear: xid/46, device: gpu-0}}\n", "gpu-0, health: Unhealthy", "timeline.1"),
        (TOO_HOT, "gpu-0, health: Healthy", "timeline.0 (set health) makes it Unhealthy;"),
        (f"{TOO_HOT}- {{reset: true}}\n", "all, health: Unhealthy", "timeline.1 (reset) makes it Healthy;"),
        (f"{TOO_HOT}- {{set: {{heartbeat: 9s}}}}\n- {{mark: a}}\n", "gpu-0, health: Healthy", "timeline.0"),
        ("- {plugin: {health: bad}, device: gpu-0}\n", "gpu-0, of: plugin, health: Healthy", "makes it Unhealthy"),
        ("- {inject: xid/48, device: {pick: 2}}\n", "gpu-1, health: Healthy", "timeline.0"),
    ],
)
def test_expectation_that_the_steps_exclude_is_rejected(steps: str, expected: str, of: str) -> None:
    (problem,) = problems(f"{steps}- {{expect: {{device: {expected}}}, within: push}}\n")
    place, _, text = problem.partition(": ")[2].partition(": ")
    assert (place, " is expected " in text, of in text) == (f"timeline.{steps.count(chr(10))}", True, True)


@pytest.mark.parametrize(
    "steps",
    [
        "- {expect: {health: Unhealthy}}\n",
        f"{ILL}- {{expect: {{device: gpu-1, health: Healthy}}}}\n",
        f"{ILL}- {{expect: {{device: gpu-0, health: Unknown}}}}\n",
        f"{ILL}- {{expect: {{device: gpu-0, message: other}}}}\n",
        f"{ILL}- recover: {{action: reboot, takes: 9s}}\n- {{expect: {{device: gpu-0, health: Unhealthy}}}}\n",
        f"- {{stream: {{silence: 9s}}}}\n{ILL}- {{expect: {{device: gpu-0, health: Healthy}}, holds: 5s}}\n",
        f"- {{driver: stop}}\n{ILL}- {{expect: {{device: gpu-0, health: Healthy}}}}\n",
        f"- {{kubelet: stop}}\n{ILL}- {{expect: {{device: gpu-0, health: Healthy}}, holds: 5s}}\n",
        f"{ILL}- {{plugin: stop}}\n- {{expect: {{device: gpu-0, of: plugin, health: Healthy}}}}\n",
        f"{ILL}- {{when: {{calls: 9}}, recover: reboot}}\n- {{expect: {{device: gpu-0, health: Healthy}}}}\n",
        "- plugin: {listed: false}\n  device: gpu-0\n- {expect: {device: gpu-0, of: plugin, health: Unhealthy}}\n",
    ],
)
def test_expectation_that_can_be_met_is_accepted(steps: str) -> None:
    (loaded,) = load(f"{HEAD}timeline:\n{steps}")
    assert checked_plan(loaded, Inventory.of(2)).actions


def test_fault_of_a_partition_does_not_contradict_the_whole_device() -> None:
    steps = "[{inject: xid/94, device: gpu-0/mig-0}, {expect: {device: gpu-0, health: Healthy}}]"
    (loaded,) = load(f"{HEAD}timeline: {steps}")
    assert checked_plan(loaded, Inventory.of(1, partitions=2)).actions


def test_when_is_rejected_in_always_steps() -> None:
    (problem,) = problems("- mark: a\nalways: [{when: {seen: Unhealthy}, reset: true}]\n")
    assert problem == "line 6: always.0.when: a step of `always` cannot wait; remove `when`"


def test_all_errors_of_a_timeline_are_reported_together() -> None:
    steps = (
        "- {inject: xid/97, device: gpu-0}\n- {mark: a, for: 2s}\n- {inject: xid/79, device: gpu-7}\n"
        "- {stream: {close: NOPE}}\n- {expect: {health: Healthy}, within: soon}\n"
    )
    places = [line.partition(": ")[2][:10] for line in problems(steps)]
    assert places == ["timeline.0", "timeline.1", "timeline.2", "timeline.3", "timeline.4"]


WORDS = st.sampled_from(["gpu-0", "gpu-*", "all", "held", "gpu-9", "", "a.example.com/b", "a b"]) | st.text(max_size=4)
STEPS = st.fixed_dictionaries(
    {},
    optional={
        "taint": st.fixed_dictionaries({"key": WORDS}, optional={"value": WORDS, "effect": WORDS}),
        "untaint": WORDS,
        "pod": st.sampled_from(["keeps-failing", "running", "deleted", "gone"]),
        "kubelet": st.sampled_from(["restart", "stop", "running", "dead"]),
        "expect": st.fixed_dictionaries({"health": st.just("Healthy")}, optional={"device": WORDS}),
        "device": WORDS,
        "for": st.sampled_from(["1s", "1s..3s", "catalogue", "0s"]),
    },
)
USES = st.fixed_dictionaries({"kind": st.sampled_from(["Pod", "ReplicaSet"])}, optional={"devices": st.integers(0, 4)})


@given(st.lists(STEPS, min_size=1, max_size=4), USES)
def test_any_steps_give_a_plan_or_a_file_error(steps: Any, workload: Any) -> None:
    said = {"format": "fault-timeline/v1", "name": "n", "use": {"workload": workload}, "timeline": steps}
    with suppress(FileError):
        assert checked_plan(load(json.dumps(said))[0], Inventory.of(2)).actions
