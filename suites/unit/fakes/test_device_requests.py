"""Device requests of a claim, parsed from its object."""

import pytest

from drahealth.fakes.cluster.allocation import DeviceRequest, Taint, Toleration, UnschedulableError, requests_of_claim
from drahealth.fakes.cluster.api import Object


def selector(expression: str) -> Object:
    return {"cel": {"expression": expression}}


CLASSES: dict[str, Object] = {
    "any": {"spec": {}},
    "gpu": {"spec": {"selectors": [selector('device.driver == "gpu.example.com"')]}},
}


ONE_FORM = 'this scheduler understands no selector but device.driver == "NAME", not device.driver != "x"'


def claim(*requests: Object, **devices: object) -> Object:
    return {"metadata": {"name": "train"}, "spec": {"devices": {"requests": list(requests), **devices}}}


def exactly(**fields: object) -> Object:
    return {"name": "r", "exactly": {"deviceClassName": "gpu", **fields}}


def test_request_defaults_to_one_device_of_its_class() -> None:
    gpu = ("gpu.example.com",)
    assert requests_of_claim(
        claim(exactly(), exactly(count=3), exactly(allocationMode="All", adminAccess=True)), CLASSES
    ) == [
        (DeviceRequest("r", "gpu", gpu),),
        (DeviceRequest("r", "gpu", gpu, count=3),),
        (DeviceRequest("r", "gpu", gpu, count=None, admin=True),),
    ]


def test_a_prioritized_list_names_request_and_subrequest() -> None:
    listed = [{"name": "two", "deviceClassName": "gpu", "count": 2}, {"name": "one", "deviceClassName": "any"}]
    (request,) = requests_of_claim(claim({"name": "r", "firstAvailable": listed}), CLASSES)
    assert [(wanted.request, wanted.count) for wanted in request] == [("r/two", 2), ("r/one", 1)]


@pytest.mark.parametrize("expression", ['device.driver=="x"', "  device.driver  ==  'x' "])
def test_selectors_of_class_and_request_are_combined(expression: str) -> None:
    ((wanted,),) = requests_of_claim(claim(exactly(selectors=[selector(expression)])), CLASSES)
    assert wanted.drivers == ("gpu.example.com", "x")
    assert not wanted.matches("gpu.example.com")


@pytest.mark.parametrize(
    ("obj", "sentence"),
    [
        (
            claim(exactly(selectors=[selector('device.driver != "x"')])),
            f"claim train: request r: {ONE_FORM}",
        ),
        (claim(exactly(deviceClassName="x")), "claim train: request r: device class x does not exist"),
        (claim({"name": "r"}), "claim train: request r: set `exactly` or `firstAvailable`"),
        (
            claim(exactly(allocationMode="Some")),
            "claim train: request r: allocationMode must be ExactCount or All, got Some",
        ),
        (
            claim(exactly(capacity={"requests": {"memory": "1Gi"}})),
            "claim train: request r: capacity is not supported; remove it",
        ),
        (
            claim(exactly(), constraints=[{"matchAttribute": "x/y"}]),
            "claim train: constraints are not supported; remove them",
        ),
    ],
)
def test_unsupported_request_is_rejected(obj: Object, sentence: str) -> None:
    with pytest.raises(UnschedulableError) as why:
        requests_of_claim(obj, CLASSES)
    assert str(why.value) == sentence


@pytest.mark.parametrize(
    ("toleration", "tolerates"),
    [
        (Toleration(operator="Exists"), True),
        (Toleration("hot", "Exists"), True),
        (Toleration("hot", "Equal", "very", "NoSchedule"), True),
        (Toleration("hot", "Equal", "barely"), False),
        (Toleration("cold", "Exists"), False),
        (Toleration("hot", "Exists", effect="NoExecute"), False),
    ],
)
def test_a_toleration_takes_the_taints_it_names(toleration: Toleration, tolerates: bool) -> None:
    assert toleration.tolerates(Taint("hot", "very", "NoSchedule")) is tolerates
