"""What a spec must say."""

from typing import Any

import pytest

from drahealth.fakes.cluster.api import CLAIM_TEMPLATES, CLAIMS, PODS, SLICES, ApiError, Kind
from drahealth.fakes.cluster.api_server.spec_validation import validate_spec


@pytest.mark.parametrize(
    ("kind", "spec", "status", "message"),
    [
        (PODS, {"containers": [{}]}, 422, "spec.containers[0].name: Required value"),
        (PODS, {"containers": {}}, 400, "spec.containers must be a list, got dict"),
        (PODS, {"containers": ["main"]}, 400, "spec.containers[0] must be an object, got str"),
        (PODS, {"containers": [{"name": 1}]}, 400, "spec.containers[0].name must be a string, got int"),
        (
            PODS,
            {"resourceClaims": [{"name": "gpu"}]},
            422,
            "must specify exactly one of: resourceClaimName, resourceClaimTemplateName",
        ),
        (CLAIMS, {"devices": {"requests": [{"exactly": {}}]}}, 422, "spec.devices.requests[0].name: Required value"),
        (CLAIM_TEMPLATES, {"spec": {"devices": []}}, 400, "spec.spec.devices must be an object, got list"),
        (SLICES, {"devices": [{}]}, 422, "[spec.driver: Required value, spec.pool.name: Required value, spec.devices"),
    ],
)
def test_missing_field_is_rejected_with_its_path(kind: Kind, spec: dict[str, Any], status: int, message: str) -> None:
    with pytest.raises(ApiError) as refusal:
        validate_spec(kind, {"metadata": {"name": "x"}, "spec": spec})
    assert refusal.value.status == status
    assert message in refusal.value.message


def test_unused_field_can_be_missing() -> None:
    validate_spec(CLAIMS, {"metadata": {"name": "x"}, "spec": {}})
    validate_spec(PODS, {"metadata": {"name": "x"}, "spec": {"containers": [{"name": "main"}]}})


def amounts(**lists: Any) -> dict[str, Any]:
    return {"containers": [{"name": "main", "resources": lists}]}


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (amounts(limits={"example.com/gpu": "1.5"}), "must be an integer"),
        (amounts(limits={"example.com/gpu": "-1"}), "must be an integer"),
        (amounts(requests={"example.com/gpu": "1"}), "Limit must be set for non overcommitable resources"),
        (
            amounts(limits={"example.com/gpu": 2}, requests={"example.com/gpu": 1}),
            "must be equal to example.com/gpu limit of 2",
        ),
        (amounts(limits=[1]), "spec.containers[0].resources.limits must be an object, got list"),
    ],
)
def test_extended_resources_are_integers_and_not_overcommitted(spec: dict[str, Any], message: str) -> None:
    with pytest.raises(ApiError) as refusal:
        validate_spec(PODS, {"metadata": {"name": "x"}, "spec": spec})
    assert message in refusal.value.message


def test_other_resources_are_not_validated() -> None:
    validate_spec(PODS, {"metadata": {"name": "x"}, "spec": amounts(limits={"cpu": "1.5"}, requests={"cpu": "100m"})})
