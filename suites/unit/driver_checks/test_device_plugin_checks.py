"""The checks of device plugins: their verdicts on a healthy plugin and on wrong plugins."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from drahealth.proto.events import (
    CdiSpec,
    CdiSpecsRead,
    ChildrenEnded,
    ContainerSeen,
    Event,
    ExperimentEnded,
    FaultCleared,
    FaultInjected,
    GrpcCall,
    ListReceived,
    PodRequested,
    ProcessExited,
    SignalSent,
    SocketRemoved,
    StatusSeen,
    StreamClosed,
    StreamOpened,
)
from drahealth.proto.services import ALLOCATE, GET_OPTIONS, GET_PREFERRED_ALLOCATION, PRE_START_CONTAINER
from drahealth.proto.values import Health, PluginDevice
from drahealth.suites.driver_checks.all_checks import CHECKS
from drahealth.suites.driver_checks.evidence import Evidence
from drahealth.suites.driver_checks.judge import judge
from drahealth.suites.driver_checks.verdicts import Verdict, requirements
from drahealth.suites.unit.driver_checks.healthy_plugin_run import (
    AFTER_RESTART,
    AGAIN,
    BROKEN,
    FIRST,
    PATH,
    POD_EXPERIMENTS,
    A,
    Edit,
    allocated,
    plugin_run,
    pod_status,
    sockets,
)
from drahealth.suites.unit.driver_checks.plugin_edits import (
    answering,
    both,
    calls,
    failing,
    fault,
    instead,
    lists,
    missing,
    registering,
    swapped,
    unregistered,
    without,
)

FAIL, PASS, NOT_TESTED, STATIC = Verdict.FAIL, Verdict.PASS, Verdict.NOT_TESTED, Verdict.STATIC
NOT_APPLICABLE = Verdict.NOT_APPLICABLE


CDI = "example.com/gpu=gpu-"
INVALID_SPEC = CdiSpecsRead((CdiSpec("gpu.json", "kind: missing", ()),))


def with_cdi(*names: str) -> Callable[[GrpcCall], GrpcCall]:
    """Changes the CDI devices of each response."""
    return answering(container_responses=[{"envs": {"A": "1"}, "cdi_devices": [{"name": name} for name in names]}])


def annotated(value: str) -> Callable[[GrpcCall], GrpcCall]:
    """Each response has its CDI devices in an annotation."""
    return answering(container_responses=[{"annotations": {"cdi.k8s.io/gpu": value}}])


CLOSED = StreamClosed("example.com/gpu", "", FIRST, "ended by the plugin", PATH, "OK")
CHILD = ChildrenEnded("main", 7, 2)
CRASH = ProcessExited("main", 7, 3, 0, ("Segmentation fault",))


def second_allocation(change: Callable[[GrpcCall], GrpcCall]) -> Edit:
    """Changes the second Allocate of gpu-1."""
    count = [0]

    def apply(call: GrpcCall) -> GrpcCall:
        if call.request != {"container_requests": [{"devices_ids": ["gpu-1"]}]}:
            return call
        count[0] += 1
        return change(call) if count[0] == 2 else call

    return calls(ALLOCATE, apply, "allocation")


def closing_first(where: str, event: Event) -> Event:
    return CLOSED if isinstance(event, StreamClosed) and event.stream == FIRST else event


def closing(stream: str, why: str = "ended by the plugin") -> Edit:
    def edit(_: str, event: Event) -> Event:
        return replace(event, why=why) if isinstance(event, StreamClosed) and event.stream == stream else event

    return edit


def late(where: str, event: Event) -> Event | None:
    """The first stream has no list, and was cancelled."""
    return None if isinstance(event, ListReceived) and event.stream == FIRST else event


run_of = cache(plugin_run)
"""The run after an edit, always the same one: some edits count events, so they serve once."""
WRONG: list[tuple[str, str, Edit, Verdict]] = [
    ("registration-fields-are-valid", "old version", registering(version="v1alpha"), FAIL),
    ("registration-fields-are-valid", "no domain", registering(resource_name="gpu"), FAIL),
    ("registration-fields-are-valid", "path", registering(endpoint=f"/x/{PATH}"), FAIL),
    ("registration-fields-are-valid", "kubernetes.io", registering(resource_name="kubernetes.io/gpu"), FAIL),
    ("device-plugin-registers", "never", unregistered("plugin-registration"), NOT_TESTED),
    ("plugin-is-served-when-it-registers", "no options", calls(GET_OPTIONS, failing), FAIL),
    ("options-agree", "none in Register", registering(options={}), FAIL),
    ("first-list-is-prompt", "cancelled at once", late, NOT_TESTED),
    ("first-list-is-prompt", "stream ends", both(late, closing_first), FAIL),
    ("device-ids-are-unique", "twice", lists(lambda found: (*found, A)), FAIL),
    ("device-ids-are-unique", "empty", lists(lambda found: (*found, PluginDevice(""))), FAIL),
    ("device-ids-are-unique", "no device", lists(lambda _: ()), NOT_TESTED),
    ("device-ids-have-at-most-63-characters", "64", lists(lambda _: (PluginDevice("x" * 64),)), FAIL),
    ("device-ids-have-at-most-63-characters", "63", lists(lambda _: (PluginDevice("x" * 63),)), PASS),
    ("device-health-is-known", "lower case", lists(lambda _: (PluginDevice("a", "healthy"),)), FAIL),
    ("device-health-is-known", "empty", lists(lambda _: (PluginDevice("a", ""),)), FAIL),
    ("every-list-has-all-devices", "order", lists(lambda found: found[::-1], AGAIN), PASS),
    (
        "every-list-has-all-devices",
        "only the change",
        lists(lambda found: found[found[1] != PluginDevice("gpu-1") :], FIRST),
        FAIL,
    ),
    ("list-stream-stays-open", "ends", closing_first, FAIL),
    ("list-stream-stays-open", "after restart", closing(AFTER_RESTART), FAIL),
    ("list-stream-stays-open", "of the reference", closing("kubelet#5"), FAIL),
    ("list-stream-stays-open", "of a real kubelet", closing("kubelet#7"), FAIL),
    ("list-stream-stays-open", "ended by the reference", closing("kubelet#5", "ended by the manager"), PASS),
    ("new-stream-lists-all-devices", "later stream", lists(lambda found: found[:1], AGAIN), FAIL),
    ("new-stream-lists-all-devices", "after restart", lists(lambda found: found[1:], AFTER_RESTART), FAIL),
    ("new-stream-lists-all-devices", "another order", lists(lambda found: found[::-1], AGAIN), PASS),
    ("each-container-has-its-response", "none", calls(ALLOCATE, answering(container_responses=[])), FAIL),
    ("each-container-has-its-response", "swapped", calls(ALLOCATE, swapped, "allocation"), FAIL),
    ("each-container-has-its-response", "error", calls(ALLOCATE, failing), FAIL),
    ("responses-give-access", "empty", calls(ALLOCATE, answering(container_responses=[{}])), FAIL),
    ("responses-give-access", "empty map", calls(ALLOCATE, answering(container_responses=[{"envs": {}}])), FAIL),
    ("cdi-names-are-qualified", "no kind", calls(ALLOCATE, with_cdi("gpu-0")), FAIL),
    ("cdi-names-are-qualified", "digit first", calls(ALLOCATE, with_cdi("0.example.com/gpu=gpu-0")), FAIL),
    ("cdi-names-are-qualified", "annotation", calls(ALLOCATE, annotated("example.com/gpu=gpu-0,gpu-1")), FAIL),
    ("cdi-names-are-qualified", "two in an annotation", calls(ALLOCATE, annotated(f"{CDI}0,{CDI}1")), PASS),
    ("cdi-names-are-qualified", "no CDI devices", calls(ALLOCATE, with_cdi()), NOT_APPLICABLE),
    ("cdi-devices-are-in-a-valid-spec", "another", calls(ALLOCATE, with_cdi("example.com/gpu=gpu-9")), FAIL),
    ("cdi-devices-are-in-a-valid-spec", "annotation", calls(ALLOCATE, annotated("example.com/gpu=gpu-9")), FAIL),
    ("cdi-devices-are-in-a-valid-spec", "no spec", instead(CdiSpecsRead, CdiSpecsRead(())), FAIL),
    ("cdi-devices-are-in-a-valid-spec", "invalid", instead(CdiSpecsRead, INVALID_SPEC), FAIL),
    ("cdi-devices-are-in-a-valid-spec", "unknown directory", without(CdiSpecsRead), NOT_APPLICABLE),
    ("cdi-devices-are-in-a-valid-spec", "no CDI devices", calls(ALLOCATE, with_cdi()), NOT_APPLICABLE),
    ("unknown-device-is-refused", "accepted", calls(ALLOCATE, lambda call: replace(call, code="OK")), FAIL),
    ("device-can-be-allocated-again", "busy", second_allocation(failing), FAIL),
    (
        "second-response-is-the-same",
        "other",
        second_allocation(answering(container_responses=[{"envs": {"N": "2"}}])),
        FAIL,
    ),
    ("advertised-preference-is-served", "not served", calls(GET_PREFERRED_ALLOCATION, failing), FAIL),
    ("required-pre-start-is-served", "not served", calls(PRE_START_CONTAINER, failing), FAIL),
    ("plugin-registers-with-a-restarted-kubelet", "never", missing("plugin-kubelet-restart"), FAIL),
    ("plugin-registers-with-a-restarted-kubelet", "not watched", unregistered("plugin-kubelet-restart"), NOT_TESTED),
    ("plugin-serves-a-new-socket", "other way", unregistered("removed-socket"), NOT_TESTED),
    ("plugin-exits-after-sigterm", "killed", instead(ProcessExited, SignalSent("main", "SIGKILL"), "plugin-end"), FAIL),
    ("plugin-exits-after-sigterm", "child", instead(ChildrenEnded, CHILD, "plugin-end"), FAIL),
    ("plugin-exits-after-sigterm", "not seen", without(ChildrenEnded), NOT_TESTED),
    ("refused-plugin-registers-with-the-next-kubelet", "never", unregistered("refused-plugin"), FAIL),
]


@pytest.mark.parametrize(("check", "edit", "verdict"), [pytest.param(c, e, v, id=f"{c}-{n}") for c, n, e, v in WRONG])
def test_check_gives_the_expected_verdict_on_a_wrong_plugin(check: str, edit: Edit, verdict: Verdict) -> None:
    assert CHECKS[check].judge(run_of(edit)).verdict is verdict


MINE = [name for name, check in CHECKS.items() if requirements()[check.requirement].binds == "device-plugin"]


@pytest.mark.parametrize("check", MINE)
def test_healthy_plugin_passes(check: str) -> None:
    assert CHECKS[check].judge(plugin_run()).verdict is PASS


def test_run_of_a_device_plugin_is_judged_by_its_requirements_alone() -> None:
    found = {one.requirement.id: one.verdict for one in judge(plugin_run())}
    assert found == {one.id: PASS for one in requirements().values() if one.binds == "device-plugin"}


def test_level_core_does_not_judge_a_real_kubelet() -> None:
    evidence = plugin_run()
    found = {one.requirement.id for one in judge(replace(evidence, header=replace(evidence.header, level="core")))}
    assert {"DEVPLUGIN-34", "DEVPLUGIN-35"} & found == {"DEVPLUGIN-34"}


def test_plugin_without_changes_is_static() -> None:
    last: list[str] = []

    def once(_: str, event: Event) -> Event | None:
        if isinstance(event, ListReceived):
            last.append(event.stream)
            return event if last.count(event.stream) == 1 else None
        return event

    assert CHECKS["every-list-has-all-devices"].judge(plugin_run(once)).verdict is STATIC


@pytest.mark.parametrize(
    ("chosen", "verdict"),
    [(["gpu-1"], PASS), (["gpu-0"], FAIL), (["gpu-9"], FAIL), (["gpu-1", "gpu-0"], FAIL), ([], FAIL)],
)
def test_preferred_devices_are_available_included_and_of_the_right_number(chosen: list[str], verdict: Verdict) -> None:
    def apply(call: GrpcCall) -> GrpcCall:
        included = call.request["container_requests"][0]["must_include_deviceIDs"]
        return replace(call, response={"container_responses": [{"deviceIDs": chosen}]}) if included else call

    found = CHECKS["preferred-devices-are-as-requested"].judge(plugin_run(calls(GET_PREFERRED_ALLOCATION, apply)))
    assert found.verdict is verdict


@pytest.mark.parametrize(("left", "verdict"), [((), PASS), ((PATH,), FAIL)])
def test_sockets_left_after_the_end_are_a_failure(left: tuple[str, ...], verdict: Verdict) -> None:
    ended = sockets("main", "ended", *left)

    def edit(where: str, event: Event) -> Event:
        return ended if where == "plugin-end" and event == sockets("main", "ended") else event

    assert CHECKS["plugin-removes-its-sockets"].judge(plugin_run(edit)).verdict is verdict


@pytest.mark.parametrize(("found", "verdict"), [((), FAIL), ((PATH,), PASS)])
def test_plugin_must_serve_its_removed_socket_again(found: tuple[str, ...], verdict: Verdict) -> None:
    gone = unregistered("removed-socket", after=SocketRemoved)
    listed = sockets("restarted", "registered", *found)
    evidence = plugin_run(
        both(gone, lambda where, event: event),
        ends={"removed-socket": ExperimentEnded("done")},
    )
    records = [*evidence.records]
    last = next(index for index, one in enumerate(records) if isinstance(one.what, SocketRemoved))
    records.insert(last + 1, replace(records[last], what=listed, number=records[last].number + 1))
    assert CHECKS["plugin-serves-a-new-socket"].judge(replace(evidence, records=tuple(records))).verdict is verdict


@pytest.mark.parametrize("experiment", ["preferred-allocation", "container-start"])
def test_call_that_is_not_advertised_does_not_apply(experiment: str) -> None:
    ends = {experiment: ExperimentEnded("not applicable", "the plugin does not advertise it")}
    found = {one.verdict for one in judge(plugin_run(ends=ends))}
    assert found == {PASS, NOT_APPLICABLE}


def test_exit_without_a_signal_fails_except_after_a_kubelet_restart() -> None:
    def crashing(experiment: str) -> Edit:
        return lambda where, event: CRASH if isinstance(event, StreamClosed) and where == experiment else event

    def verdicts(check: str) -> list[Verdict]:
        runs = [plugin_run(crashing(name)) for name in ("list-and-watch", "plugin-kubelet-restart")]
        return [CHECKS[check].judge(run).verdict for run in runs]

    assert verdicts("plugin-runs-until-it-is-stopped") == [FAIL, PASS]
    assert verdicts("list-stream-stays-open") == [NOT_TESTED, PASS]


@pytest.mark.parametrize(("seconds", "verdict"), [(10.5, PASS), (11.5, FAIL)])
@pytest.mark.parametrize(
    ("stream", "check"), [(FIRST, "first-list-is-prompt"), (AGAIN, "new-stream-lists-all-devices")]
)
def test_first_list_has_a_second_for_our_own_delay(stream: str, check: str, seconds: float, verdict: Verdict) -> None:
    run = plugin_run()
    opened = next(one.at for one in run.records if getattr(one.what, "stream", "") == stream)
    mine = [getattr(one.what, "stream", "") == stream and one.at > opened for one in run.records]
    records = [replace(one, at=opened + seconds) if late else one for one, late in zip(run.records, mine, strict=True)]
    assert CHECKS[check].judge(replace(run, records=tuple(records))).verdict is verdict


def test_healthy_run_that_was_cut_short_has_no_failure() -> None:
    whole = plugin_run()
    cut = (replace(whole, records=whole.records[:count], complete=False) for count in range(len(whole.records)))
    worst = {judgement.verdict for evidence in cut for judgement in judge(evidence)}
    assert worst.isdisjoint({FAIL, Verdict.ERROR})


# The checks of device plugins whose devices drahealth breaks and heals.

BREAK, HEAL = "broken-device-is-listed-unhealthy", "healed-device-is-listed-healthy"
OTHERS = "other-devices-stay-as-they-are"


def list_after(kind: type[Event], *devices: PluginDevice) -> Edit:
    """Changes the lists after the break or the heal."""
    seen: list[bool] = []

    def edit(where: str, event: Event) -> Event:
        if where == "plugin-fault-plan" and isinstance(event, kind):
            seen.append(True)
        if seen and isinstance(event, ListReceived) and event.stream == BROKEN:
            return replace(event, devices=devices)
        return event

    return edit


NOW: dict[str, Any] = {"settle": -5.0}
"""No time to settle: half a second after the step is late."""
B, SICK = PluginDevice("gpu-1"), PluginDevice("gpu-1", "Unhealthy")
NO_EFFECT = fault(**NOW, on_no_effect="NOT_TESTED")
FAULTS: list[tuple[str, str, Edit, Verdict]] = [
    (BREAK, "stays healthy", both(fault(**NOW), list_after(FaultInjected, A, B)), FAIL),
    (BREAK, "disappears", both(fault(**NOW), list_after(FaultInjected, A)), FAIL),
    (BREAK, "not read long enough", list_after(FaultInjected, A, B), NOT_TESTED),
    (BREAK, "may have no effect", both(NO_EFFECT, list_after(FaultInjected, A, B)), NOT_TESTED),
    (BREAK, "may have no effect, but is late", NO_EFFECT, FAIL),
    (BREAK, "adapter fails", fault(outcome="failed", problem="no such file"), NOT_TESTED),
    (BREAK, "adapter must work", fault(outcome="timed out", on_error="FAIL"), FAIL),
    (HEAL, "not read long enough", list_after(FaultCleared, A, SICK), NOT_TESTED),
    (HEAL, "no heal", without(FaultCleared), STATIC),
    (OTHERS, "all break", list_after(FaultInjected, PluginDevice("gpu-0", "Unhealthy"), SICK), FAIL),
    (OTHERS, "another one disappears", list_after(FaultInjected, SICK), FAIL),
    (OTHERS, "break not listed", list_after(FaultInjected, A, B), NOT_TESTED),
    (OTHERS, "one device", lists(lambda found: found[1:], BROKEN), STATIC),
]


@pytest.mark.parametrize(("check", "edit", "verdict"), [pytest.param(c, e, v, id=f"{c}-{n}") for c, n, e, v in FAULTS])
def test_check_gives_the_expected_verdict_after_a_fault(check: str, edit: Edit, verdict: Verdict) -> None:
    assert CHECKS[check].judge(run_of(edit)).verdict is verdict


# The checks of Pods with devices of a device plugin.

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
    assert CHECKS[check].judge(run_of(edit)).verdict is verdict


# The checks of a process with device plugins of two resources.

OTHER = "example.com/nic"


def with_other_resource(change: Edit = lambda _, event: event) -> Evidence:
    """The evidence of a process that registers another resource, too. `change` edits what happens to that one."""
    evidence = plugin_run()
    records = []
    for one in evidence.records:
        records.append(one)
        other = of_other_resource(one.what) if one.experiment not in ("plugin-fault-plan", *POD_EXPERIMENTS) else None
        if other and (kept := change(one.experiment, other)):
            records.append(replace(one, what=kept))
    numbered = tuple(replace(one, number=number) for number, one in enumerate(records, start=2))
    return replace(evidence, records=numbered)


def of_other_resource(event: Event) -> Event | None:
    """The same event of the other resource; None if it belongs to the process."""
    match event:
        case GrpcCall(request=request) if "resource_name" in request:
            return replace(event, driver=OTHER, request={**request, "resource_name": OTHER})
        case GrpcCall():
            return replace(event, driver=OTHER)
        case ListReceived() | StreamOpened() | StreamClosed():
            return replace(event, driver=OTHER, stream=f"{event.stream}-nic")
        case SocketRemoved():
            return replace(event, resource=OTHER)
    return None


def test_two_healthy_resources_pass() -> None:
    found = {one.requirement.id: one.verdict for one in judge(with_other_resource())}
    assert found == {one.id: PASS for one in requirements().values() if one.binds == "device-plugin"}


@pytest.mark.parametrize(
    ("check", "edit", "verdict"),
    [
        pytest.param(check, edit, verdict, id=f"{check}-{name}")
        for check, name, edit, verdict in WRONG
        if check.startswith(
            ("device-ids", "device-health", "each-container", "cdi-names", "unknown-device", "required", "advertised")
        )
        and verdict is FAIL
    ],
)
def test_mistake_in_one_resource_is_found_and_named(check: str, edit: Edit, verdict: Verdict) -> None:
    found = CHECKS[check].judge(with_other_resource(edit))
    assert (found.verdict, f"{OTHER}: " in found.seen) == (verdict, True)


def test_resource_that_was_not_tested_is_named() -> None:
    late = with_other_resource(lambda _, event: event if isinstance(event, GrpcCall) else None)
    found = CHECKS["first-list-is-prompt"].judge(late)
    assert (found.verdict, found.seen) == (NOT_TESTED, f"{OTHER}: ListAndWatch was not called")


def test_call_that_one_resource_does_not_advertise_does_not_apply_to_it() -> None:
    def edit(_: str, event: Event) -> Event | None:
        if isinstance(event, GrpcCall) and f"/{event.method}" == GET_OPTIONS.path:
            return replace(event, response={})
        return None if isinstance(event, GrpcCall) and f"/{event.method}" == PRE_START_CONTAINER.path else event

    assert CHECKS["required-pre-start-is-served"].judge(with_other_resource(edit)).verdict is PASS
