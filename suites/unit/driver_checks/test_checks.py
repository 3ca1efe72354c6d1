"""All checks together: each requirement has one, none raises, and none passes without evidence."""

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from drahealth.proto.events import (
    ApiServerSwitched,
    CdiSpec,
    CdiSpecsRead,
    ClaimAllocated,
    ClaimReadHeld,
    ContainerSeen,
    Event,
    EventSeen,
    ExperimentEnded,
    ExperimentStarted,
    GrpcCall,
    KubeletSwitched,
    ListReceived,
    MalformedReceived,
    PluginRegistered,
    PodDeleted,
    PodRequested,
    PreparedClaim,
    PreparedClaimsRead,
    ProcessExited,
    ProcessStarted,
    RegistrationFailed,
    ReportReceived,
    SignalSent,
    SliceChanged,
    SlicesListed,
    SocketRemoved,
    SocketsListed,
    StatusSeen,
    StreamClosed,
    StreamOpened,
    Undecoded,
)
from drahealth.proto.health_apis import HEALTH_APIS
from drahealth.proto.services import (
    ALLOCATE,
    GET_INFO,
    GET_OPTIONS,
    GET_PREFERRED_ALLOCATION,
    NOTIFY_REGISTRATION,
    PRE_START_CONTAINER,
    PREPARE,
    REGISTER,
    UNPREPARE,
)
from drahealth.proto.values import DeviceHealth, Health, PluginDevice, ResourceHealth, ResourceStatus
from drahealth.suites.driver_checks.all_checks import CHECKS
from drahealth.suites.driver_checks.evidence import Evidence, Observation
from drahealth.suites.driver_checks.experiments import EXPERIMENTS
from drahealth.suites.driver_checks.judge import judge
from drahealth.suites.driver_checks.verdicts import Verdict, requirements
from drahealth.suites.unit.driver_checks.evidence_of import HEADER, evidence_of
from drahealth.suites.unit.driver_checks.healthy_plugin_run import plugin_run
from drahealth.suites.unit.driver_checks.healthy_run import healthy_run

PLUGIN_METHODS = (REGISTER, GET_OPTIONS, ALLOCATE, GET_PREFERRED_ALLOCATION, PRE_START_CONTAINER)
PATHS = [
    *(one.path for one in PLUGIN_METHODS),
    GET_INFO.path,
    NOTIFY_REGISTRATION.path,
    *(method.path for method in (*PREPARE.values(), *UNPREPARE.values())),
]
KEYS = [
    *("claims", "uid", "devices", "pool_name", "device_name", "request_names", "cdi_device_ids", "error", "name"),
    *("type", "supported_versions", "plugin_registered", "spec", "metadata", "pool", "driver", "device", "request"),
    *("container_requests", "container_responses", "devices_ids", "deviceIDs", "available_deviceIDs", "envs"),
    *("allocation_size", "must_include_deviceIDs", "resource_name", "version", "endpoint", "options"),
    *("health", "health_status", "allowMultipleAllocations", "adminAccess", "pool", "a", "b"),
]
SCALARS = st.none() | st.booleans() | st.integers(0, 3) | st.sampled_from(["a", "b", "", "DRAPlugin", "v1.DRAPlugin"])


def trees() -> st.SearchStrategy[Any]:
    return st.recursive(
        SCALARS,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4),
        max_leaves=8,
    )


def plain() -> st.SearchStrategy[dict[str, Any]]:
    return st.dictionaries(st.sampled_from(KEYS), trees(), max_size=4)


def claims(of: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({"claims": st.lists(st.fixed_dictionaries({"uid": of}), max_size=3)})


def answers() -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({"claims": st.dictionaries(st.sampled_from(["a", "b"]), trees(), max_size=2)})


IDS = st.sampled_from(["a", "b"])
PROCESSES = st.sampled_from(["main", "refused", "restarted", "cut-off"])
DEVICES = st.builds(
    DeviceHealth,
    st.sampled_from(["", "a"]),
    st.sampled_from(["", "a", "b"]),
    st.sampled_from(Health),
    st.sampled_from(["", "x", "\ud800", "é" * 600]),
    st.integers(-1, 60),
    st.integers(-1, 2**62),
)
CODES = st.sampled_from(["OK", "UNIMPLEMENTED", "CANCELLED", ""])
SHOWN = st.builds(ResourceHealth, st.sampled_from(["a/a/a", "b"]), st.sampled_from(Health), IDS)
CONTAINERS = st.builds(
    ContainerSeen,
    *(IDS, st.sampled_from(["running", "terminated"]), st.integers(0, 1)),
    st.none() | st.lists(st.builds(ResourceStatus, IDS, st.lists(SHOWN, max_size=2).map(tuple)), max_size=1).map(tuple),
)
EVENTS: st.SearchStrategy[Event] = st.one_of(
    st.builds(
        GrpcCall,
        *(IDS, IDS, st.sampled_from([path.removeprefix("/") for path in PATHS]), plain() | claims(IDS)),
        st.none() | plain() | answers(),
        st.floats(0, 9),
        CODES,
    ),
    st.builds(StreamOpened, IDS, IDS, IDS, st.sampled_from([*HEALTH_APIS, "other"])),
    st.builds(
        ReportReceived,
        *(IDS, IDS, IDS, st.integers(0, 9), st.lists(DEVICES, max_size=3).map(tuple)),
        st.lists(st.builds(Undecoded, st.integers(-1, 3), plain()), max_size=2).map(tuple),
    ),
    st.builds(
        ListReceived,
        *(IDS, IDS, IDS, st.integers(0, 9), st.lists(st.builds(PluginDevice, IDS, IDS), max_size=3).map(tuple)),
    ),
    st.builds(KubeletSwitched, PROCESSES, st.booleans()),
    st.builds(SocketRemoved, PROCESSES, IDS),
    st.builds(MalformedReceived, IDS, IDS, IDS, st.integers(0, 9), IDS),
    st.builds(StreamClosed, IDS, IDS, IDS, st.sampled_from(["", "cancelled by drahealth"]), IDS, CODES),
    st.builds(ProcessStarted, PROCESSES, st.just(1), st.just(("x",))),
    st.builds(ProcessExited, PROCESSES, st.just(1), st.integers(-9, 9), st.integers(0, 2), st.just(())),
    st.builds(SignalSent, PROCESSES, st.sampled_from(["SIGTERM", "SIGKILL"])),
    st.builds(
        SocketsListed,
        *(PROCESSES, st.sampled_from(["registered", "ended"]), st.lists(IDS, max_size=1).map(tuple), st.just(())),
    ),
    st.builds(SlicesListed, st.lists(plain(), max_size=2).map(tuple)),
    st.builds(
        SliceChanged, st.sampled_from(["ADDED", "MODIFIED", "DELETED"]), plain(), st.sampled_from(["driver", "check"])
    ),
    st.builds(ClaimAllocated, IDS, IDS, IDS, st.lists(plain(), max_size=2).map(tuple)),
    st.builds(CdiSpecsRead, st.lists(st.builds(CdiSpec, IDS, IDS, st.just(("a",))), max_size=2).map(tuple)),
    st.builds(ApiServerSwitched, PROCESSES, st.booleans()),
    st.builds(ClaimReadHeld, IDS, st.booleans()),
    st.builds(RegistrationFailed, IDS, IDS),
    st.builds(ExperimentStarted, PROCESSES),
    st.builds(PluginRegistered, IDS, IDS, st.none() | IDS),
    st.builds(
        PodRequested,
        *(st.sampled_from(["created", "deleted"]), IDS, IDS, st.lists(IDS, max_size=2).map(tuple)),
        st.sampled_from(["kep", "v1.37", "other"]),
    ),
    st.builds(PodDeleted, IDS, IDS, IDS),
    st.builds(EventSeen, IDS, IDS, st.sampled_from(["Normal", "Warning"]), IDS, IDS),
    st.lists(st.builds(PreparedClaim, IDS, IDS, st.lists(plain(), max_size=1).map(tuple)), max_size=2)
    .map(tuple)
    .map(PreparedClaimsRead),
    st.builds(
        StatusSeen, IDS, IDS, st.sampled_from(["Running", "Pending"]), st.lists(CONTAINERS, max_size=1).map(tuple)
    ),
    st.builds(ExperimentEnded, st.sampled_from(["done", "not applicable", "incomplete", "error"]), IDS),
)


@given(st.lists(st.tuples(st.floats(-9, 99), st.sampled_from([*EXPERIMENTS]), EVENTS), max_size=25), st.booleans())
@settings(max_examples=300, deadline=None)
def test_no_check_raises_on_any_evidence(records: list[tuple[float, str, Event]], complete: bool) -> None:
    observed = (Observation(number, *record) for number, record in enumerate(records, start=2))
    evidence = Evidence(HEADER, tuple(observed), complete)
    for check in CHECKS.values():
        assert check.judge(evidence).seen


@cache
def healthy_runs() -> list[Evidence]:
    """The evidence of a healthy driver and of a healthy device plugin."""
    return [healthy_run(), plugin_run()]


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_no_check_raises_on_mixed_evidence_of_a_real_run(data: st.DataObject) -> None:
    whole = data.draw(st.sampled_from(healthy_runs()))
    order = Random(data.draw(st.integers(0, 2**32)))  # a strategy of permutations draws as often as there are records
    records = order.sample(whole.records, data.draw(st.integers(0, len(whole.records))))
    wrong = data.draw(st.dictionaries(st.integers(0, len(whole.records)), EVENTS, max_size=20))
    mixed = [replace(one, what=wrong.get(index, one.what)) for index, one in enumerate(records)]
    for check in CHECKS.values():
        assert check.judge(replace(whole, records=tuple(mixed))).seen


def test_healthy_run_that_was_cut_short_has_no_failure() -> None:
    whole = healthy_run()
    cut = (replace(whole, records=whole.records[:count], complete=False) for count in range(len(whole.records)))
    worst = {judgement.verdict for evidence in cut for judgement in judge(evidence)}
    assert worst.isdisjoint({Verdict.FAIL, Verdict.ERROR})


def test_no_check_passes_without_evidence() -> None:
    evidence = evidence_of(*((name, ExperimentEnded("done")) for name in EXPERIMENTS))
    assert {name: found for name, found in findings(evidence).items() if found is not Verdict.NOT_TESTED} == {}


def findings(evidence: Evidence) -> Mapping[str, Verdict]:
    return {name: check.judge(evidence).verdict for name, check in CHECKS.items()}


def test_every_requirement_has_a_check() -> None:
    assert {check.requirement for check in CHECKS.values()} == set(requirements())


def test_requirements_have_known_levels_families_and_apis() -> None:
    found = requirements().values()
    levels, families = {one.level for one in found}, {one.family for one in found}
    apis = {api for one in found for api in one.apis}
    known = {"plugin contract", "health", "Pod status", "faults", "taints", "device plugin"}
    assert (levels, families) == ({"MUST", "SHOULD"}, known)
    assert apis <= HEALTH_APIS.keys()


def test_requirements_name_text_section_and_link() -> None:
    unclear = [
        one.id for one in requirements().values() if "," not in one.source or not one.link.startswith("https://")
    ]
    assert unclear == []
