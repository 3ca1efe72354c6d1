"""Objects with checked types."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drahealth.fakes.cluster.api import CLAIMS, PODS, SLICES, ApiError, Kind, Object
from drahealth.fakes.cluster.api_server.body_decoding import typed
from drahealth.suites.unit.fakes.protobuf_encoder import objects
from drahealth.suites.unit.fakes.test_served_kinds import BY_NAME, SENT


@pytest.mark.parametrize("obj", SENT, ids=lambda obj: f"{obj['apiVersion']}-{obj['kind']}")
def test_an_object_of_client_go_stays_as_it_is(obj: Object) -> None:
    assert typed(BY_NAME[obj["apiVersion"], obj["kind"]].kind, obj) == obj


@given(st.sampled_from(sorted(BY_NAME)).flatmap(lambda key: objects(*key)))
@settings(max_examples=100, deadline=None)
def test_every_object_of_a_message_stays_as_it_is(obj: Any) -> None:
    assert typed(BY_NAME[obj["apiVersion"], obj["kind"]].kind, obj) == obj


def test_null_is_absent_except_in_embedded_json() -> None:
    data = {"ip": None}
    claim = {"metadata": {"labels": None}, "spec": None, "status": {"devices": [{"driver": "d", "data": data}]}}
    assert typed(CLAIMS, claim) == {"metadata": {}, "status": {"devices": [{"driver": "d", "data": data}]}}


@pytest.mark.parametrize(
    ("kind", "obj", "field"),
    [
        (SLICES, {"spec": {"devices": {}}}, "spec.devices"),
        (SLICES, {"spec": {"devices": [1]}}, "spec.devices[0]"),
        (SLICES, {"spec": {"devices": [None]}}, "spec.devices[0]"),
        (SLICES, {"spec": {"pool": {"generation": True}}}, "spec.pool.generation"),
        (SLICES, {"spec": {"pool": {"generation": 2**63}}}, "spec.pool.generation"),
        (SLICES, {"spec": {"allNodes": "true"}}, "spec.allNodes"),
        (SLICES, {"metadata": {"labels": {"a": 1}}}, "metadata.labels[a]"),
        (SLICES, {"metadata": {"creationTimestamp": 1}}, "metadata.creationTimestamp"),
        (PODS, {"spec": {"volumes": [{"hostPath": "/"}]}}, "spec.volumes[0].hostPath"),  # an inlined message
        (
            PODS,
            {"spec": {"containers": [{"resources": {"limits": {"cpu": []}}}]}},
            "spec.containers[0].resources.limits[cpu]",
        ),
    ],
)
def test_a_wrong_type_is_a_bad_request(kind: Kind, obj: Object, field: str) -> None:
    with pytest.raises(ApiError) as raised:
        typed(kind, obj)
    assert (raised.value.status, raised.value.message.partition(" must ")[0]) == (400, field)
