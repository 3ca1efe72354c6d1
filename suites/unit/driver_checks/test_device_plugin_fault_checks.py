"""The checks of faults of device plugins: verdicts on a right plugin and on wrong ones."""

from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest

from drahealth.proto.events import (
    Event,
    ExperimentStarted,
    FaultCleared,
    FaultInjected,
    FaultStage,
    ListReceived,
    ProcessExited,
    ProcessStarted,
    StreamClosed,
    StreamOpened,
)
from drahealth.proto.values import PluginDevice
from drahealth.suites.driver_checks.all_checks import CHECKS
from drahealth.suites.driver_checks.device_plugins.observed import plugin_crashes
from drahealth.suites.driver_checks.evidence import CANCELLED_BY_US, Evidence
from drahealth.suites.driver_checks.fault_plan import AGAIN, IDLE
from drahealth.suites.driver_checks.verdicts import Finding, Verdict
from drahealth.suites.unit.driver_checks.evidence_of import evidence_at

PLAN, GPU, NIC = "plugin-fault-plan", "example.com/gpu", "example.com/nic"
BREAK, CLEAR, END = 10.0, 30.0, 60.0
BROKEN, HEALED = "broken-device-is-listed-unhealthy", "healed-device-is-listed-healthy"
AGREE, OTHERS = "lists-agree-while-a-fault-lasts", "other-devices-stay-as-they-are"
ALL = (BROKEN, HEALED, AGREE, OTHERS)
FAIL, PASS, NOT_TESTED = Verdict.FAIL, Verdict.PASS, Verdict.NOT_TESTED
HEALTHY, SICK = "Healthy", "Unhealthy"
Health = Callable[[str, float], str]
"""The health of a device at a time; "" if it is not listed."""


def broken(device: str, resource: str = GPU, **more: object) -> FaultInjected:
    given = ("planned", "hot", "break", resource, device, "write FILE", "forced", SICK, 1.0, "done", 0.1)
    return replace(FaultInjected(*given), **more)  # type: ignore[arg-type]


def cleared(device: str, resource: str = GPU, shows: tuple[str, ...] = ()) -> FaultCleared:
    return FaultCleared("planned", "hot", resource, device, "remove FILE", 1.0, "done", 0.1, shows=shows)


STEPS: Mapping[float, Event] = {BREAK: broken("gpu-1"), CLEAR: cleared("gpu-1")}
STREAMS = ((0.5, END),)
"""When the streams of a resource are open."""


def right(device: str, at: float) -> str:
    """What a right plugin lists of gpu-1, which breaks and recovers."""
    return SICK if device == "gpu-1" and BREAK < at < CLEAR else HEALTHY


def run(
    health: Health = right,
    steps: Mapping[float, Event] = STEPS,
    streams: tuple[tuple[float, float], ...] = STREAMS,
) -> Evidence:
    """Streams of two resources; each has a list at its start, and then one each 2 s, 0.5 s later."""
    records: list[tuple[float, str, Event]] = [(at, PLAN, event) for at, event in steps.items()]
    for resource, devices in ((GPU, ("gpu-0", "gpu-1", "gpu-2")), (NIC, ("nic-0",))):
        for number, (opened, closed) in enumerate(streams):
            stream = f"{resource}#{number}"
            records.append((opened, PLAN, StreamOpened(resource, "", stream, "v1beta1.DevicePlugin", "/s")))
            for at in (opened + 0.1, *(at + 0.5 for at in range(2, 60, 2) if opened < at < closed - 0.5)):
                each = tuple(PluginDevice(one, health(one, at)) for one in devices if health(one, at))
                records.append((at, PLAN, ListReceived(resource, "/s", stream, 20, each)))
            ends = StreamClosed(resource, "", stream, CANCELLED_BY_US, "/s", "CANCELLED")
            records.append((closed, PLAN, ends))
    return evidence_at(*records)


def finding(check: str, *given: object, **more: object) -> Finding:
    return CHECKS[check].judge(run(*given, **more))  # type: ignore[arg-type]


def failures(*given: object, **more: object) -> list[str]:
    """The checks that fail."""
    return [check for check in ALL if finding(check, *given, **more).verdict is FAIL]


def between(start: float, end: float, device: str, health: str) -> Health:
    """A plugin that is right except for one device at some time."""
    return lambda name, at: health if name == device and start < at < end else right(name, at)


@pytest.mark.parametrize("check", ALL)
def test_right_plugin_passes(check: str) -> None:
    assert finding(check).verdict is PASS
    assert finding(check, steps={}).verdict is NOT_TESTED


@pytest.mark.parametrize(
    ("plugin", "expected"),
    [
        pytest.param(between(BREAK, CLEAR, "gpu-1", HEALTHY), [BROKEN], id="break is not listed"),
        pytest.param(between(BREAK, CLEAR, "gpu-1", ""), [BROKEN], id="broken device is left out"),
        pytest.param(between(BREAK, 18, "gpu-1", HEALTHY), [BROKEN], id="break is listed late"),
        pytest.param(between(CLEAR, END, "gpu-1", SICK), [HEALED], id="recovery is not listed"),
        pytest.param(between(20, 22, "gpu-1", HEALTHY), [AGREE], id="fault ends by itself"),
        pytest.param(between(20, CLEAR, "gpu-1", ""), [AGREE], id="broken device is left out later"),
        pytest.param(between(BREAK, CLEAR, "gpu-2", SICK), [OTHERS], id="next device breaks, too"),
        pytest.param(between(BREAK, CLEAR, "nic-0", SICK), [OTHERS], id="device of another resource breaks, too"),
        pytest.param(between(BREAK, 15, "gpu-0", ""), [OTHERS], id="next device is left out"),
        pytest.param(between(CLEAR, END, "gpu-2", SICK), [OTHERS], id="next device breaks with the recovery"),
        pytest.param(between(40, END, "gpu-2", SICK), [], id="another device breaks by itself"),
    ],
)
def test_wrong_list_fails_its_check(plugin: Health, expected: list[str]) -> None:
    assert failures(plugin) == expected


def test_fault_that_began_while_no_stream_was_open_must_be_in_the_first_list() -> None:
    streams = ((0.5, 9.0), (20.0, END))
    assert failures(streams=streams) == []
    assert failures(between(BREAK, 21, "gpu-1", HEALTHY), streams=streams) == [BROKEN]


def test_stream_that_is_opened_before_the_settle_time_is_over_can_show_the_fault_later() -> None:
    assert failures(between(BREAK, 13, "gpu-1", HEALTHY), streams=((0.5, 9.0), (12.0, END))) == []


def test_first_list_of_a_new_stream_with_the_old_health_fails() -> None:
    streams = ((0.5, 19.0), (20.0, END))
    found = finding(AGREE, between(20, 21, "gpu-1", HEALTHY), streams=streams)
    assert (found.verdict, "in the first list of a stream" in found.seen) == (FAIL, True)


def test_second_fault_that_heals_the_first_device_fails() -> None:
    steps = {**STEPS, 20.0: broken("gpu-2")}

    def newest(device: str, at: float) -> str:
        if device == "gpu-2" and at > 20:
            return SICK
        return HEALTHY if at > 20 else right(device, at)

    assert failures(newest, steps) == [AGREE]


def test_recovered_device_that_breaks_with_another_one_is_a_bystander() -> None:
    steps = {**STEPS, 40.0: broken("gpu-2")}
    both: Health = lambda device, at: SICK if device != "gpu-0" and at > 40 else right(device, at)  # noqa: E731
    assert failures(both, steps) == [OTHERS]


def test_device_with_two_faults_is_unhealthy_until_both_are_cleared() -> None:
    steps = {BREAK: broken("gpu-1"), 20.0: cleared("gpu-1", shows=(SICK,)), CLEAR: cleared("gpu-1")}
    assert failures(steps=steps) == []
    assert failures(between(20, CLEAR, "gpu-1", HEALTHY), steps) == [AGREE]


def test_new_process_may_need_the_settle_time() -> None:
    steps: dict[float, Event] = {**STEPS, 19.0: ProcessStarted("planned", 7, ("./plugin",))}
    streams = ((0.5, 18.0), (20.0, END))
    assert failures(between(20, 24, "gpu-1", HEALTHY), steps, streams=streams) == []
    assert failures(between(26, 27, "gpu-1", HEALTHY), steps, streams=streams) == [AGREE]


def test_new_process_need_not_know_a_fault_that_it_was_asked_for() -> None:
    steps = {BREAK: broken("gpu-1", grade="asked"), 19.0: ProcessStarted("planned", 7, ("./plugin",))}
    assert failures(between(20, CLEAR, "gpu-1", HEALTHY), steps, streams=((0.5, 18.0), (20.0, END))) == []


def test_recovery_while_a_new_process_starts_is_judged() -> None:
    steps: dict[float, Event] = {**STEPS, 31.0: ProcessStarted("planned", 7, ("./plugin",))}
    streams = ((0.5, 29.0), (32.0, END))
    assert failures(steps=steps, streams=streams) == []
    assert failures(between(CLEAR, END, "gpu-1", SICK), steps, streams=streams) == [HEALED]


def test_bystander_that_a_starting_plugin_lists_as_unhealthy_at_first_passes() -> None:
    steps: dict[float, Event] = {**STEPS, 29.0: ProcessStarted("planned", 7, ("./plugin",))}
    assert failures(between(29, 31, "gpu-2", SICK), steps, streams=((0.5, 28.0), (29.5, END))) == []


def test_plugin_without_a_list_while_a_fault_lasts_is_static() -> None:
    assert finding(AGREE, streams=((0.5, 0.7), (12.0, 12.7))).verdict is Verdict.STATIC


def test_failed_action_is_no_proof_against_the_plugin() -> None:
    steps = {BREAK: broken("gpu-1", outcome="failed", problem="no file")}
    assert failures(lambda *_: HEALTHY, steps) == []
    assert finding(BROKEN, lambda *_: HEALTHY, steps).verdict is NOT_TESTED


def test_device_that_changed_instead_is_named_with_the_adapter_as_possible_cause() -> None:
    swapped: Health = lambda device, at: right("gpu-1" if device == "gpu-2" else "", at)  # noqa: E731
    assert "example.com/gpu/gpu-2 changed instead: the fault adapter may break" in finding(BROKEN, swapped).seen
    assert "the fault adapter may break another device than example.com/gpu/gpu-1" in finding(OTHERS, swapped).seen


def test_fault_without_any_effect_names_the_adapter_as_possible_cause() -> None:
    text = "no device changed: the fault adapter may have no effect"
    assert text in finding(BROKEN, lambda *_: HEALTHY).seen
    again: Mapping[float, Event] = {**STEPS, 40.0: broken("gpu-2")}
    assert "the same fault had an effect on example.com/gpu/gpu-1" in finding(BROKEN, right, again).seen


def test_other_device_that_changes_names_the_adapter_as_possible_cause() -> None:
    both: Health = lambda device, at: right("gpu-1" if device == "gpu-2" else device, at)  # noqa: E731
    assert "the fault adapter may also change example.com/gpu/gpu-2" in finding(OTHERS, both).seen


def test_exit_at_a_restart_of_the_kubelet_is_no_crash() -> None:
    def crashes(moment: str) -> int:
        stage = FaultStage("planned", moment, (), (), (), ())
        exit_ = ProcessExited("planned", 7, 1, 0, ())
        evidence = run(steps={0.0: ExperimentStarted("planned"), 1.0: stage, 2.0: exit_})
        return len(list(plugin_crashes(evidence, "planned")))

    assert [crashes(IDLE), crashes(AGAIN)] == [1, 0]
