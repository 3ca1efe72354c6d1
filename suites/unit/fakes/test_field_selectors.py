"""Field selectors."""

from dataclasses import replace

import pytest

from drahealth.fakes.cluster.api import EVENTS, PODS, SLICES, ApiError, Kind, Object
from drahealth.fakes.cluster.api_server.lists import field_selector

CONFIG = Kind("ConfigMap", "configmaps", "v1", namespaced=True)
POD: Object = {"metadata": {"name": "train", "namespace": "default"}, "spec": {"nodeName": "node-a"}}


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        ("", True),
        ("metadata.name=train", True),
        ("metadata.name==train, spec.nodeName = node-a", True),
        ("metadata.name=train,spec.nodeName=node-b", False),
        ("metadata.namespace!=default", False),
        ("metadata.namespace!=other", True),
        ("spec.hostNetwork=false", True),
        ("spec.nodeName=", False),
        ("status.phase=", True),
        ("status.phase!=Running", True),
        ("spec.host=node-a", True),
        ("spec.nodeName!=node-b", True),
    ],
)
def test_an_object_matches_if_all_terms_do(text: str, matches: bool) -> None:
    assert field_selector(text, PODS)(POD) is matches


@pytest.mark.parametrize(
    ("kind", "text", "message"),
    [
        (PODS, "metadata.name", "invalid selector: 'metadata.name'; can't understand 'metadata.name'"),
        (PODS, "status.qosClass=Running", "field label not supported: status.qosClass"),
        (SLICES, "spec=", "field label not supported for resource.k8s.io/v1, Kind=ResourceSlice: spec"),
        (CONFIG, "data=x", '"data" is not a known field selector: only "metadata.name", "metadata.namespace"'),
    ],
)
def test_selector_of_an_unknown_field_is_rejected(kind: Kind, text: str, message: str) -> None:
    with pytest.raises(ApiError) as refusal:
        field_selector(text, kind)
    assert (refusal.value.status, refusal.value.message) == (400, message)


@pytest.mark.parametrize(
    ("kind", "field"),
    [(EVENTS, "involvedObject.name"), (replace(EVENTS, api_version="events.k8s.io/v1"), "regarding.name")],
)
@pytest.mark.parametrize("name", ["train", "other"])
def test_events_are_selected_by_their_object(kind: Kind, field: str, name: str) -> None:
    event: Object = {"metadata": {"name": "e"}, "involvedObject": {"kind": "Pod", "name": name}, "reason": "Started"}
    assert field_selector(f"{field}=train,reason=Started", kind)(event) is (name == "train")
