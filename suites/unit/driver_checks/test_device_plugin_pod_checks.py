"""The checks of Pods with devices of a device plugin."""

import pytest

from drahealth.proto.device_plugin import ALLOCATE
from drahealth.proto.events import ContainerSeen, Event, GrpcCall, PodRequested, StatusSeen
from drahealth.proto.values import Health, PluginDevice
from drahealth.suites.driver_checks.all_checks import CHECKS
from drahealth.suites.driver_checks.verdicts import Verdict
from drahealth.suites.unit.driver_checks.healthy_plugin_run import A, Edit, allocated, plugin_run, pod_status
from drahealth.suites.unit.driver_checks.plugin_edits import both, calls, failing, fault, lists, without

FAIL, PASS, NOT_TESTED = Verdict.FAIL, Verdict.PASS, Verdict.NOT_TESTED
NOT_APPLICABLE = Verdict.NOT_APPLICABLE
RUN, ON_KUBELET = "plugin-pod-status", "plugin-kubelet-pod"
STARTS, SHOWN, SHOWN_FAULT = (
    "pod-with-devices-starts",
    "devices-of-pods-are-listed-and-shown",
    "kubelet-shows-listed-fault",
)
AGAIN_RUNS, ON_KUBELET_SHOWN = "pod-can-use-devices-again", "kubelet-shows-devices-of-pods"


def of_pod(uid: str, status: StatusSeen | None) -> Edit:
    """Changes each status of a Pod."""
    return lambda _, event: status if isinstance(event, StatusSeen) and event.uid == uid else event


def without_pod(uid: str) -> Edit:
    return lambda _, event: None if getattr(event, "uid", "") == uid else event


def allocated_after(uid: str, device: str) -> Edit:
    """The Pod gets another device."""
    seen: list[bool] = []

    def edit(where: str, event: Event) -> Event:
        if isinstance(event, PodRequested):
            seen[:] = [event.uid == uid]
        is_meant = isinstance(event, GrpcCall) and f"/{event.method}" == ALLOCATE.path
        return allocated(device) if seen == [True] and is_meant and where == RUN else event

    return edit


B = PluginDevice("gpu-1")
EMPTY = StatusSeen("pod", "u1", "Running", (ContainerSeen("main", "running", 0, None),))
PODS: list[tuple[str, str, Edit, Verdict]] = [
    (STARTS, "never runs", of_pod("u1", None), FAIL),
    (STARTS, "Allocate fails", both(of_pod("u1", None), calls(ALLOCATE, failing, RUN)), FAIL),
    (STARTS, "not deleted", both(of_pod("u1", None), without(PodRequested, RUN)), NOT_TESTED),
    (SHOWN, "disappears", lists(lambda found: found[:1], "kubelet#5"), FAIL),
    (SHOWN, "not in the status", of_pod("u1", EMPTY), FAIL),
    (SHOWN, "below another resource", of_pod("u1", pod_status("u1", resource="example.com/nic")), FAIL),
    (SHOWN, "another health", of_pod("u1", pod_status("u1", Health.UNKNOWN)), FAIL),
    (SHOWN, "other word", lists(lambda _: (A, PluginDevice("gpu-1", "ok")), "kubelet#5"), FAIL),
    (SHOWN, "never runs", of_pod("u1", None), NOT_TESTED),
    (SHOWN, "no Allocate", calls(ALLOCATE, lambda _: None, RUN), NOT_TESTED),
    (AGAIN_RUNS, "second one never runs", of_pod("u2", None), FAIL),
    (AGAIN_RUNS, "one Pod", without_pod("u2"), NOT_TESTED),
    (AGAIN_RUNS, "another device", allocated_after("u2", "gpu-0"), NOT_APPLICABLE),
    (ON_KUBELET_SHOWN, "never runs", of_pod("u4", None), FAIL),
    (ON_KUBELET_SHOWN, "another health", of_pod("u4", pod_status("u4", Health.UNHEALTHY)), FAIL),
    (ON_KUBELET_SHOWN, "disappears", lists(lambda found: found[:1], "kubelet#7"), FAIL),
    (SHOWN_FAULT, "stays healthy", both(fault(settle=-20.0), of_pod("u4", pod_status("u4"))), FAIL),
    (
        SHOWN_FAULT,
        "not listed",
        both(of_pod("u4", pod_status("u4")), lists(lambda _: (A, B), "kubelet#7")),
        NOT_TESTED,
    ),
    (SHOWN_FAULT, "adapter fails", fault(outcome="failed", problem="no such file"), NOT_TESTED),
    (SHOWN_FAULT, "Unknown is Unhealthy", fault(health="Unknown"), PASS),
]


@pytest.mark.parametrize(("check", "edit", "verdict"), [pytest.param(c, e, v, id=f"{c}-{n}") for c, n, e, v in PODS])
def test_check_gives_the_expected_verdict_on_a_pod(check: str, edit: Edit, verdict: Verdict) -> None:
    assert CHECKS[check].judge(plugin_run(edit)).verdict is verdict
