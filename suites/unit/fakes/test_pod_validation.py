"""The rules A-08 to A-15 for a pod status; paths and wording are those of Kubernetes 1.37."""

from dataclasses import replace

import pytest

from drahealth.fakes.cluster.api import ApiError, Object
from drahealth.fakes.cluster.api_server.pod_statuses import KEP_RULES, FieldRules, validate_status

FIELD = "status.containerStatuses[0].allocatedResourcesStatus"
RESOURCES = {
    "claims": [{"name": "gpu"}, {"name": "nic", "request": "fast"}],
    "requests": {"example.com/gpu": "1", "example.com/dra": "2", "example.com/none": "0"},
}
MAPPINGS = [
    {"containerName": "main", "resourceName": "example.com/dra", "requestName": "container-0-request-0"},
    {"containerName": "main", "resourceName": "example.com/none", "requestName": "container-0-request-1"},
    {"containerName": "side", "resourceName": "example.com/dra", "requestName": "container-1-request-0"},
]
EXTENDED = {"resourceClaimName": "train-extended", "requestMappings": MAPPINGS}
HEALTHY = {"resourceID": "a", "health": "Healthy"}
RELEASE = replace(KEP_RULES, has_pod_field=False, names_every_request=False)


def entry(name: str, *resources: Object) -> Object:
    return {"name": name, "resources": list(resources) or [HEALTHY]}


def pod(*entries: Object, container: str = "main", field: str = "containerStatuses") -> Object:
    status: Object = {field: [{"name": container, "allocatedResourcesStatus": list(entries)}]}
    status["extendedResourceClaimStatus"] = EXTENDED
    spec = {"containers": [{"name": "main", "resources": RESOURCES}]}
    spec["initContainers"] = [{"name": "init", "resources": RESOURCES}]
    return {"metadata": {"name": "train", "namespace": "default"}, "spec": spec, "status": status}


def check(obj: Object, rules: FieldRules = RELEASE) -> None:
    validate_status(obj, rules)


def refusal(obj: Object, rules: FieldRules = RELEASE) -> str:
    with pytest.raises(ApiError) as error:
        check(obj, rules)
    assert (error.value.status, error.value.reason) == (422, "Invalid")
    return error.value.message.removeprefix('Pod "train" is invalid: ')


@pytest.mark.counterpart("TestValidateContainerStatusAllocatedResourcesStatus")
@pytest.mark.parametrize(
    "name",
    ["claim:gpu", "claim:nic/fast", "example.com/gpu", "claim:train-extended/container-0-request-0"],
)
def test_names_of_the_container_are_accepted(name: str) -> None:
    check(pod(entry(name)))


@pytest.mark.counterpart("TestValidateContainerStatusAllocatedResourcesStatus")
@pytest.mark.parametrize(
    "name",
    [
        "claim:other",
        "claim:nic",
        "claim:gpu/fast",
        "claim:train-extended",
        "claim:train-extended/",
        "claim:other/container-0-request-0",
        "claim:train-extended/container-0-request-1",
        "claim:train-extended/container-1-request-0",
    ],
)
def test_claim_entry_needs_a_claim_of_the_container(name: str) -> None:
    expected = f'{FIELD}[0].name: Invalid value: "{name}": must match one of the container\'s resource claims as'
    assert refusal(pod(entry(name))).startswith(expected)


@pytest.mark.counterpart("TestValidateContainerStatusAllocatedResourcesStatus")
def test_another_name_must_be_a_requested_resource() -> None:
    expected = f'{FIELD}[1].name: Invalid value: "cpu": must match one of the container\'s resource requests'
    assert refusal(pod(entry("claim:gpu"), entry("cpu"))) == expected


@pytest.mark.parametrize("name", ["claim:gpu", "claim:gpu/any", "claim:nic/fast"])
def test_the_kep_has_an_entry_for_each_request_where_the_container_names_none(name: str) -> None:
    check(pod(entry(name)), KEP_RULES)


@pytest.mark.parametrize("name", ["claim:gpu/", "claim:gpus/any", "claim:nic", "claim:nic/slow"])
def test_the_kep_has_no_other_entry_of_a_container(name: str) -> None:
    assert f'{FIELD}[0].name: Invalid value: "{name}"' in refusal(pod(entry(name)), KEP_RULES)


def with_a_claim_of_its_own(name: str) -> Object:
    spec = {"containers": [{"name": "main"}], "resourceClaims": [{"name": "gpu"}]}
    return {**pod(), "spec": spec, "status": {"allocatedResourcesStatus": [entry(name)]}}


@pytest.mark.parametrize("name", ["claim:gpu", "claim:gpu/any"])
def test_an_entry_of_the_pods_own_names_a_claim_of_the_pod(name: str) -> None:
    check(with_a_claim_of_its_own(name), KEP_RULES)


@pytest.mark.parametrize("name", ["claim:g", "claim:gpu/", "gpu"])
def test_an_entry_of_the_pods_own_has_no_other_name(name: str) -> None:
    expected = f'status.allocatedResourcesStatus[0].name: Invalid value: "{name}": must match one of the pod'
    assert refusal(with_a_claim_of_its_own(name), KEP_RULES).startswith(expected)


@pytest.mark.counterpart("TestValidateContainerStatusAllocatedResourcesStatus")
def test_container_outside_the_spec_has_no_check_of_names() -> None:
    check(pod(entry("claim:other"), container="gone"))
    assert "Unsupported value" in refusal(pod(entry("claim:other", {"health": "Sick"}), container="gone"))


@pytest.mark.counterpart("TestValidateContainerStatusAllocatedResourcesStatus")
@pytest.mark.parametrize("health", ["", "healthy", "Sick"])
def test_health_values_are_healthy_unhealthy_unknown(health: str) -> None:
    supported = 'supported values: "Healthy", "Unhealthy", "Unknown"'
    expected = f'{FIELD}[0].resources[0].health: Unsupported value: "{health}": {supported}'
    assert refusal(pod(entry("claim:gpu", {"resourceID": "a", "health": health}))) == expected


@pytest.mark.counterpart("TestValidateContainerStatusAllocatedResourcesStatus")
def test_a_resource_id_occurs_once_in_an_entry() -> None:
    expected = f'{FIELD}[0].resources[1].resourceID: Duplicate value: "a"'
    assert refusal(pod(entry("claim:gpu", HEALTHY, HEALTHY))) == expected


@pytest.mark.counterpart("TestValidateContainerStatusAllocatedResourcesStatus")
@pytest.mark.parametrize(
    ("message", "wrong"),
    [
        ("", "Required value: must be non-empty if specified"),
        ("é" * 513, "Too long: may not be more than 1024 bytes"),
    ],
)
def test_a_message_has_1_to_1024_bytes(message: str, wrong: str) -> None:
    assert refusal(pod(entry("claim:gpu", {**HEALTHY, "message": message}))) == (
        f"{FIELD}[0].resources[0].message: {wrong}"
    )
    check(pod(entry("claim:gpu", {**HEALTHY, "message": "é" * 512})))


@pytest.mark.counterpart("TestValidateContainerStatusNoAllocatedResourcesStatus")
def test_ephemeral_containers_have_no_entries() -> None:
    expected = (
        "status.ephemeralContainerStatuses[0].allocatedResourcesStatus: "
        "Forbidden: must not be specified in container status"
    )
    assert refusal(pod(entry("claim:gpu"), field="ephemeralContainerStatuses")) == expected
    check(pod(field="ephemeralContainerStatuses"))


def test_init_container_entries_are_validated_against_their_own_spec() -> None:
    check(pod(entry("claim:gpu"), container="init", field="initContainerStatuses"))
    wrong = refusal(pod(entry("claim:other"), container="init", field="initContainerStatuses"))
    assert wrong.startswith("status.initContainerStatuses[0].allocatedResourcesStatus[0].name: Invalid value")


def test_unvalidated_fields_are_accepted() -> None:
    without_id = {"health": "Unknown", "message": None}
    check(pod(entry("claim:gpu", without_id), entry("claim:gpu"), {"name": "claim:nic/fast", "resources": []}))


def test_several_errors_are_reported_together() -> None:
    message = refusal(pod(entry("cpu", {"resourceID": "a", "health": "Sick"}, HEALTHY)))
    assert (message[0], message[-1], message.count(FIELD)) == ("[", "]", 3)


@pytest.mark.parametrize(
    "status",
    [
        {"containerStatuses": {}},
        {"containerStatuses": ["main"]},
        {"containerStatuses": [{"name": "main", "allocatedResourcesStatus": "x"}]},
        {"containerStatuses": [{"name": "main", "allocatedResourcesStatus": [{"name": 1}]}]},
        {"initContainerStatuses": [{"allocatedResourcesStatus": [{"resources": [{"message": 1}]}]}]},
        {"extendedResourceClaimStatus": {"requestMappings": {}}},
        {"allocatedResourcesStatus": [{"name": "claim:gpu", "resources": [{"health": 1}]}]},
    ],
)
def test_malformed_status_is_a_bad_request(status: Object) -> None:
    with pytest.raises(ApiError) as error:
        check({**pod(), "status": status})
    assert (error.value.status, error.value.reason) == (400, "BadRequest")
