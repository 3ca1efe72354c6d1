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
        ("spec.nodeName!=node-b", True),
    ],
)
def test_an_object_matches_if_all_terms_do(text: str, matches: bool) -> None:
    assert field_selector(text)(POD) is matches


@pytest.mark.parametrize("text", ["metadata.name", "status.phase=Running", "=x"])
def test_selector_of_an_unknown_field_is_rejected(text: str) -> None:
    with pytest.raises(ApiError) as refusal:
        field_selector(text)
    assert (refusal.value.status, refusal.value.reason) == (400, "BadRequest")
