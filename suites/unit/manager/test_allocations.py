"""Device allocations: holders of devices, choice of devices, and the allocations file."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drahealth.manager.allocations import Allocation, Allocations, choose, dump_allocations, load_allocations
from drahealth.proto.values import DeviceNode, Grant, Mount, is_extended_resource
from drahealth.suites.unit.manager.rig import lines

GPU, NIC = "example.com/gpu", "example.com/nic"
GRANT = Grant({"A": "1"}, (Mount("/in", "/on", True),), (DeviceNode("/d", "/d", "rwm"),), {"note": "x"}, ("a/b=c",))


def held(pod: str, *devices: str, resource: str = GPU) -> Allocation:
    return Allocation(pod, "main", resource, devices, Grant())


def test_free_ended_releases_devices_of_ended_pods() -> None:
    allocations = Allocations([held("a", "0"), held("b", "1")])
    allocations.end("a")
    before = allocations.in_use(GPU)
    assert (before, allocations.free_ended(), allocations.in_use(GPU)) == ({"0", "1"}, True, {"1"})


def test_holders_are_looked_up_by_resource_and_device_id() -> None:
    allocations = Allocations([held("a", "0", resource=NIC), held("b", "0", "1")])
    assert [allocations.holders(GPU, {name}) for name in "02"] == [{"b"}, set()]


def test_holder_lookup_by_id_alone_returns_the_first_pod() -> None:
    allocations = Allocations([held("a", "0", resource=NIC), held("b", "0", "1")])
    assert allocations.holders(GPU, {"0", "1"}, by_resource=False) == {"a", "b"}
    assert allocations.holders(GPU, {"0"}, by_resource=False) == {"a"}


@given(st.lists(st.text(), unique=True), st.integers(0, 8), st.lists(st.text()))
def test_choose_returns_distinct_available_devices_with_preferred_ones_first(
    available: list[str], count: int, preferred: list[str]
) -> None:
    if len(available) < count:
        with pytest.raises(ValueError, match=f"{count} requested, {len(available)} available"):
            choose(available, count, preferred)
        return
    chosen = choose(available, count, preferred)
    wishes = [wish for wish in dict.fromkeys(preferred) if wish in available][:count]
    assert (len(set(chosen)), set(chosen) <= set(available), list(chosen[: len(wishes)])) == (count, True, wishes)


TEXTS = st.text(st.characters(codec="utf-8"), max_size=5)
GRANTS = st.builds(Grant, st.dictionaries(TEXTS, TEXTS, max_size=2), cdi_devices=st.lists(TEXTS).map(tuple))
ALLOCATIONS = st.builds(
    Allocation, TEXTS, TEXTS, TEXTS, st.lists(TEXTS, max_size=3).map(tuple), GRANTS | st.just(GRANT)
)


@given(st.lists(ALLOCATIONS, max_size=4))
def test_allocations_round_trip_through_the_file(allocations: list[Allocation]) -> None:
    data = json.loads(json.dumps(dump_allocations(allocations, [GPU])))
    assert load_allocations(data) == (allocations, [GPU])


GOOD = {"pod_uid": "p", "container": "c", "resource": GPU, "devices": ["0"], "grant": {}}


@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [
        ([], "entry: Input should be a dictionary"),
        ({**GOOD, "devices": "0"}, "devices: Input should be a valid tuple"),
        ({**GOOD, "pod_uid": 1}, "pod_uid: Input should be a valid string"),
        ({**GOOD, "grant": None}, "grant: Input should be a dictionary"),
        ({**GOOD, "grant": {"envs": {"A": 1}}}, "grant.envs.A: Input should be a valid string"),
        ({key: value for key, value in GOOD.items() if key != "resource"}, "resource: Field required"),
        ({**GOOD, "container": "\ud800"}, "invalid Unicode text"),
    ],
)
def test_invalid_allocation_is_ignored_and_others_are_loaded(
    wrong: Any, complaint: str, caplog: pytest.LogCaptureFixture
) -> None:
    found, resources = load_allocations({"allocations": [wrong, GOOD], "resources": ["cpu", GPU, 1]})
    assert ([allocation.pod_uid for allocation in found], resources) == (["p"], [GPU])
    (line,) = lines(caplog, "")
    assert line.startswith(
        "checkpoint device_plugin_allocations: ignoring 3 invalid entries, the first: allocations[0]: "
    )
    assert complaint in line


def test_invalid_file_content_is_logged_in_one_printable_line(caplog: pytest.LogCaptureFixture) -> None:
    load_allocations(
        {"allocations": [{**GOOD, "grant": {"envs": {"a\nERROR" * 1000: 1}}}], "resources": ["\x1b" * 1000]}
    )
    (line,) = lines(caplog, "ignoring 2 invalid entries")
    assert (line.isprintable(), len(line) < 500) == (True, True)


@pytest.mark.parametrize("data", [{"allocations": 1}, {"odd": []}, {"allocations": None}])
def test_file_with_invalid_structure_is_logged_once(data: Any, caplog: pytest.LogCaptureFixture) -> None:
    assert load_allocations(data) == ([], [])
    told = "checkpoint device_plugin_allocations: ignoring 2 invalid entries, the first: allocations must be a list"
    assert lines(caplog, "") == [told]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(sorted(GOOD)), inner, max_size=5),
)


@given(st.dictionaries(st.sampled_from(["allocations", "resources"]), JSON))
def test_any_file_content_loads_without_an_error(data: Any) -> None:
    allocations, resources = load_allocations(data)
    assert all(isinstance(found, Allocation) for found in allocations)
    assert all(is_extended_resource(name) for name in resources)


@pytest.mark.parametrize(
    ("name", "is_one"),
    [
        ("example.com/gpu", True),
        ("example/Gpu_1.x", True),
        ("cpu", False),
        ("", False),
        ("/gpu", False),
        ("example.com/", False),
        ("example.com/a/b", False),
        ("kubernetes.io/gpu", False),
        ("x.kubernetes.io/gpu", False),
        ("requests.example.com/gpu", False),
        ("Example.com/gpu", False),
        ("example.com/-gpu", False),
        ("example.com/gpu\n", False),
        ("example.com/" + "g" * 63, True),
        ("example.com/" + "g" * 64, False),
        ("e" * 244 + "/gpu", True),
        ("e" * 245 + "/gpu", False),
    ],
)
def test_extended_resource_names_are_validated(name: str, is_one: bool) -> None:
    assert is_extended_resource(name) is is_one
