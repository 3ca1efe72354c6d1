"""The devices that a pod holds, and the invariants on their health in the pod status."""

from typing import Any

import pytest

from drahealth.proto.events import DevicesHeld, HeldDevice, HeldResource
from drahealth.proto.values import Health, ResourceHealth, ResourceStatus
from drahealth.suites.judging import status_content
from drahealth.suites.story.history import devices_held
from drahealth.suites.unit.suites.histories import DEVICES, DRIVER, POOL, container, entry, history, pod, resource

RESOURCE = "example.com/gpu"


def spec(*claims: dict[str, Any], init: tuple[dict[str, Any], ...] = (), limits: dict[str, str] | None = None) -> Any:
    """A pod whose container `main` uses these claims, and `first` those in `init`."""
    return {
        "metadata": {"name": "pod-1", "uid": "uid-of-pod-1"},
        "spec": {
            "resourceClaims": [
                {"name": "own", "resourceClaimName": "object"},
                {"name": "made", "resourceClaimTemplateName": "template"},
            ],
            "initContainers": [{"name": "first", "resources": {"claims": list(init)}}] if init else [],
            "containers": [{"name": "main", "resources": {"claims": list(claims), "limits": limits or {}}}],
        },
        "status": {"resourceClaimStatuses": [{"name": "made", "resourceClaimName": "pod-1-made"}]},
    }


def allocated(**devices: str) -> Any:
    """A claim whose requests have these devices."""
    results = [{"request": r, "driver": DRIVER, "pool": POOL, "device": d} for r, d in devices.items()]
    return {"status": {"allocation": {"devices": {"results": results}}}}


def held(container: str, claim: str, request: str, device: str) -> HeldDevice:
    return HeldDevice(container, claim, request, DRIVER, POOL, device)


def test_a_container_holds_the_devices_of_its_extended_resource() -> None:
    obj = spec(limits={RESOURCE: "1"})
    mapping = {"containerName": "main", "requestName": "container-0-request-0", "resourceName": RESOURCE}
    obj["status"]["extendedResourceClaimStatus"] = {"resourceClaimName": "made-x", "requestMappings": [mapping]}
    found = devices_held(obj, {"made-x": allocated(**{"container-0-request-0": "gpu-0"})})
    assert found.devices == (held("main", "made-x", "container-0-request-0", "gpu-0"),)


def test_a_container_holds_the_devices_of_the_request_that_it_names_or_of_all() -> None:
    claims = {"object": allocated(one="gpu-0", two="gpu-1"), "pod-1-made": allocated(only="gpu-2")}
    one, whole = {"name": "own", "request": "one"}, {"name": "own"}
    assert devices_held(spec(one, init=(whole,)), claims).devices == (
        held("first", "own", "one", "gpu-0"),
        held("first", "own", "two", "gpu-1"),
        held("main", "own", "one", "gpu-0"),
        held("", "made", "only", "gpu-2"),
    )


def test_a_sub_request_belongs_to_its_request_and_a_claim_without_allocation_has_no_devices() -> None:
    use = {"name": "own", "request": "one"}
    found = devices_held(spec(use), {"object": allocated(**{"one/small": "gpu-0"})})
    assert found.devices == (held("main", "own", "one/small", "gpu-0"),)


def test_limits_of_extended_resources_are_held_and_cpu_is_not() -> None:
    found = devices_held(spec(limits={"cpu": "2", RESOURCE: "3"}), {})
    assert (found.devices, found.resources) == ((), (HeldResource("main", RESOURCE, 3),))


HOLDS = DevicesHeld(
    "pod-1",
    "uid-of-pod-1",
    (held("main", "claim-1", "gpu", "gpu-0"), held("", "unused", "gpu", "gpu-1")),
    (HeldResource("main", RESOURCE, 1),),
)
OWN, OTHER = entry(resource()), entry(resource(device="gpu-1"))
LISTED = ResourceHealth("a", Health.HEALTHY), ResourceHealth("b", Health.HEALTHY)


@pytest.mark.parametrize(
    ("shown", "found"),
    [
        pytest.param(
            pod([container(OWN)], own=(entry(resource(device="gpu-1"), name="claim:unused/gpu"),)), 0, id="own"
        ),
        pytest.param(pod([container(OTHER)]), 1, id="a device of another claim"),
        pytest.param(pod([container(entry(resource(), name="claim:claim-1/more"))]), 1, id="another request"),
        pytest.param(pod([container(OWN), container(OWN, name="second")]), 1, id="another container"),
        pytest.param(pod(init=[container(OWN, name="first")]), 1, id="an init container"),
        pytest.param(pod(own=(OWN,)), 1, id="a used claim in the pod itself"),
        pytest.param(pod([container(entry(resource(device="gpu-of-no-driver")))]), 1, id="an unknown device"),
        pytest.param(pod([container(ResourceStatus(RESOURCE, LISTED[:1]))]), 0, id="a device of a plugin"),
        pytest.param(pod([container(ResourceStatus(RESOURCE, LISTED))]), 1, id="more devices than requested"),
        pytest.param(pod([container(OTHER)], name="pod-2"), 0, id="a pod whose claims are unknown"),
    ],
)
def test_status_shows_only_devices_that_its_container_or_pod_holds(shown: Any, found: int) -> None:
    assert len(list(status_content.not_held(history(shown, HOLDS, shown), DEVICES))) == found


@pytest.mark.parametrize(
    ("shown", "found"),
    [
        pytest.param(pod([container(OWN)]), 0, id="it shows"),
        pytest.param(pod([container()]), 1, id="it does not show"),
        pytest.param(pod([container()], phase="Failed"), 0, id="its pod has ended"),
        pytest.param(pod([container()], name="pod-2"), 0, id="another pod"),
    ],
)
def test_a_container_of_a_running_pod_shows_each_watched_device_that_it_holds(shown: Any, found: int) -> None:
    watched = [(DRIVER, POOL, "gpu-0")]
    assert len(list(status_content.missing(history(HOLDS), [shown], DEVICES, watched))) == found
    assert list(status_content.missing(history(HOLDS), [shown], DEVICES, [])) == []
