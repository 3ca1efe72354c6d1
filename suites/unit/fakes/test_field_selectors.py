"""Field selectors."""

import pytest

from drahealth.fakes.cluster.api import ApiError, Object
from drahealth.fakes.cluster.api_server.field_selectors import field_selector

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
        ("spec.driver=", True),
        ("spec.nodeName=", False),
        ("status.phase=", True),
        ("status.phase!=Running", True),
        ("reason=", True),
        ("spec.nodeName!=node-b", True),
    ],
)
def test_an_object_matches_if_all_terms_do(text: str, matches: bool) -> None:
    assert field_selector(text)(POD) is matches


@pytest.mark.parametrize("text", ["metadata.name", "status.qosClass=Running", "spec", "=x"])
def test_selector_of_an_unknown_field_is_rejected(text: str) -> None:
    with pytest.raises(ApiError) as refusal:
        field_selector(text)
    assert (refusal.value.status, refusal.value.reason) == (400, "BadRequest")


@pytest.mark.parametrize("field", ["involvedObject.name", "regarding.name"])
@pytest.mark.parametrize("name", ["train", "other"])
def test_events_are_selected_by_their_object(field: str, name: str) -> None:
    event: Object = {"metadata": {"name": "e"}, "involvedObject": {"kind": "Pod", "name": name}, "reason": "Started"}
    assert field_selector(f"{field}=train,reason=Started")(event) is (name == "train")
