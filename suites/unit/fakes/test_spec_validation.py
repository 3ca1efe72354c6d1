"""Required and valid fields of a spec."""

import json
from typing import Any

import pytest

from drahealth.fakes.cluster import refusals
from drahealth.fakes.cluster.api import CLAIM_TEMPLATES, CLAIMS, PODS, REPLICA_SETS, SLICES, ApiError, Kind, Object
from drahealth.fakes.cluster.api_server.spec_validation import check_spec, spec_errors


def validate_spec(kind: Kind, obj: Object) -> None:
    check_spec(kind, obj)
    if errors := spec_errors(kind, obj):
        raise refusals.invalid(kind, "x", errors)


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
            "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`",
        ),
        (CLAIMS, {"devices": {"requests": [{"exactly": {}}]}}, 422, "spec.devices.requests[0].name: Required value"),
        (CLAIM_TEMPLATES, {"spec": {"devices": []}}, 400, "spec.spec.devices must be an object, got list"),
        (SLICES, {"devices": [{}]}, 422, "[spec.driver: Required value, spec.pool.name: Required value, spec.pool"),
        (
            SLICES,
            {"devices": [{"name": "a", "taints": [{"key": "a/b/c"}]}]},
            422,
            'taints[0].key: Invalid value: "a/b/c"',
        ),
        (SLICES, {"devices": [{"name": "a", "taints": [{"key": "a"}]}]}, 422, "taints[0].effect: Required value"),
        (
            SLICES,
            {"devices": [{"name": "a", "taints": [{"key": "a", "value": "-", "effect": "PreferNoSchedule"}]}]},
            422,
            'taints[0].effect: Unsupported value: "PreferNoSchedule": supported values: "NoExecute"',
        ),
    ],
)
def test_missing_field_is_rejected_with_its_path(kind: Kind, spec: dict[str, Any], status: int, message: str) -> None:
    with pytest.raises(ApiError) as refusal:
        validate_spec(kind, {"metadata": {"name": "x"}, "spec": spec})
    assert refusal.value.status == status
    assert message in refusal.value.message


def test_unused_field_can_be_missing() -> None:
    validate_spec(CLAIMS, {"metadata": {"name": "x"}, "spec": {}})
    validate_spec(PODS, {"metadata": {"name": "x"}, "spec": {"containers": [{"name": "main", "image": "a"}]}})


def amounts(**lists: Any) -> dict[str, Any]:
    return {"containers": [{"name": "main", "image": "a", "resources": lists}]}


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (amounts(limits={"example.com/gpu": "1.5"}), "must be an integer"),
        (amounts(limits={"example.com/gpu": "-1"}), "must be greater than or equal to 0"),
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


def test_other_resources_can_be_overcommitted() -> None:
    validate_spec(
        PODS,
        {"metadata": {"name": "x"}, "spec": amounts(limits={"cpu": "1.5"}, requests={"cpu": "100m", "memory": "1Gi"})},
    )


DECLARED = [{"name": "a", "resourceClaimName": "x"}, {"name": "b", "resourceClaimName": "y"}]
OTHERS = "must be one of the names in pod.spec.resourceClaims"


def using(*claims: dict[str, str], declared: list[dict[str, str]] = DECLARED) -> dict[str, Any]:
    return {
        "containers": [{"name": "main", "image": "a", "resources": {"claims": list(claims)}}],
        "resourceClaims": declared,
    }


@pytest.mark.parametrize(
    ("spec", "errors"),
    [
        (using({"name": "gpu"}, declared=[]), f'[0]: Not found: "gpu": {OTHERS} which is empty'),
        (using({"name": "a"}, {"name": "gpu"}), f'[1]: Not found: "gpu": {OTHERS}: a, b'),
        (using({"name": "a"}, {"name": "a", "request": "x"}), '[1]: Duplicate value: "a"'),
        (using({"name": "b", "request": "x"}, {"name": "b", "request": "x"}), '[1]: Duplicate value: "b/x"'),
        (using({"name": "b", "request": "x"}, {"name": "b"}), '[1]: Duplicate value: "b/x"'),
        (using({"name": ""}), "[0]: Required value"),
    ],
)
def test_a_container_uses_each_declared_claim_once(spec: dict[str, Any], errors: str) -> None:
    """The messages are those of kube-apiserver 1.37.1."""
    with pytest.raises(ApiError) as refusal:
        validate_spec(PODS, {"metadata": {"name": "x"}, "spec": spec})
    at = "spec.containers[0].resources.claims"
    assert (refusal.value.status, refusal.value.message) == (422, f'Pod "x" is invalid: {at}{errors}')


@pytest.mark.parametrize("request_name", ["gpu/large", "gpu.large", "GPU", "-gpu", "gpu-", "gpu\n", "g" * 64])
def test_a_request_of_a_container_must_be_an_rfc_1123_label(request_name: str) -> None:
    spec = using({"name": "a"}, {"name": "b", "request": request_name})
    with pytest.raises(ApiError, match=r"RFC 1123 label") as refusal:
        validate_spec(PODS, {"metadata": {"name": "x"}, "spec": spec})
    at = "spec.containers[0].resources.claims[1].request"
    assert refusal.value.status == 422
    assert refusal.value.message.startswith(f'Pod "x" is invalid: {at}: Invalid value: {json.dumps(request_name)}: ')


@pytest.mark.parametrize("request_name", ["g", "0", "gpu-0", "g" * 63, ""])
def test_an_rfc_1123_label_is_a_valid_request_of_a_container(request_name: str) -> None:
    spec = using({"name": "a", "request": request_name})
    validate_spec(PODS, {"metadata": {"name": "x"}, "spec": spec})


def test_a_request_after_its_whole_claim_is_reported_as_a_duplicate_only() -> None:
    spec = using({"name": "a"}, {"name": "a", "request": "gpu/large"})
    with pytest.raises(ApiError) as refusal:
        validate_spec(PODS, {"metadata": {"name": "x"}, "spec": spec})
    at = "spec.containers[0].resources.claims[1]"
    assert refusal.value.message == f'Pod "x" is invalid: {at}: Duplicate value: "a"'


def test_the_claims_of_init_containers_and_of_templates_are_checked() -> None:
    containers = [{"name": "main", "image": "a", "resources": {"claims": [{"name": "a"}]}}]
    spec = {
        "containers": [{"name": "main", "image": "a"}],
        "initContainers": containers,
        "resourceClaims": [*DECLARED, DECLARED[1]],
    }
    with pytest.raises(ApiError, match=r'spec\.resourceClaims\[2\]\.name: Duplicate value: "b"'):
        validate_spec(PODS, {"metadata": {"name": "x"}, "spec": spec})
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": containers}}
    with pytest.raises(ApiError, match=r"spec\.template\.spec\.containers\[0\]\.resources\.claims\[0\]: Not found"):
        validate_spec(REPLICA_SETS, {"metadata": {"name": "x"}, "spec": {"selector": {}, "template": template}})


@pytest.mark.parametrize("amount", ["much", "1Gib", "", "1e", ".", "--1"])
def test_an_amount_is_a_quantity(amount: str) -> None:
    with pytest.raises(ApiError, match="quantities must match the regular expression") as refusal:
        validate_spec(PODS, {"metadata": {"name": "x"}, "spec": amounts(limits={"cpu": amount})})
    assert refusal.value.status == 400


@pytest.mark.parametrize(
    ("less", "more"), [("1", "1.5"), ("999m", "1"), ("1000Mi", "1Gi"), ("1M", "1Mi"), ("1e3", "2k"), ("1n", "1u")]
)
def test_a_request_is_not_more_than_its_limit(less: str, more: str) -> None:
    validate_spec(PODS, {"metadata": {"name": "x"}, "spec": amounts(limits={"cpu": more}, requests={"cpu": less})})
    with pytest.raises(ApiError, match=rf"must be less than or equal to cpu limit of {less}"):
        validate_spec(PODS, {"metadata": {"name": "x"}, "spec": amounts(limits={"cpu": less}, requests={"cpu": more})})
