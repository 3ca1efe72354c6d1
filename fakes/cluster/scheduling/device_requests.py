"""A claim's requests as values, combined with their device classes.

A class or request can select devices only by their driver, in the CEL form `device.driver == "NAME"`. Other expressions
are rejected with a message and never allocated. Source: API resource.k8s.io/v1, `DeviceClaim`.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from drahealth.fakes.cluster.api import Object

_DRIVER_SELECTOR = re.compile(r"""\s*device\.driver\s*==\s*(["'])([^"'\\]+)\1\s*""")
_UNSUPPORTED = ("capacity", "derivedAttributes")


class UnschedulableError(Exception):
    """A pod cannot be scheduled now; the text is for its PodScheduled condition."""


@dataclass(frozen=True, slots=True)
class Taint:
    """A taint of a device (`DeviceTaint`)."""

    key: str
    value: str
    effect: str


@dataclass(frozen=True, slots=True)
class Toleration:
    """Taints that a request tolerates (`DeviceToleration`); an empty key or effect matches all."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""

    def tolerates(self, taint: Taint) -> bool:
        return (
            self.key in ("", taint.key)
            and self.effect in ("", taint.effect)
            and (self.operator == "Exists" or self.value == taint.value)
        )


@dataclass(frozen=True, slots=True)
class DeviceRequest:
    """The number of devices of one request; `count` None means all that match (allocationMode All)."""

    request: str
    """Name in allocation results: the request, or `request/subrequest` in a prioritized list."""
    device_class: str
    drivers: tuple[str, ...] = ()
    """Drivers named by the selectors; the device's driver must equal each of them."""
    count: int | None = 1
    admin: bool = False
    tolerations: tuple[Toleration, ...] = ()

    def matches(self, driver: str) -> bool:
        return all(wanted == driver for wanted in self.drivers)

    def tolerates(self, taints: Sequence[Taint]) -> bool:
        return all(any(toleration.tolerates(taint) for toleration in self.tolerations) for taint in taints)


Alternatives = tuple[DeviceRequest, ...]
"""One request: its alternatives, the preferred one first."""


def requests_of(claim: Object, classes: Mapping[str, Object]) -> list[Alternatives]:
    """The claim's requests in order. `UnschedulableError` for an unknown class or an unsupported expression."""
    metadata, devices = claim["metadata"], claim["spec"].get("devices", {})
    name = metadata.get("name") or metadata["generateName"]
    try:
        if devices.get("constraints"):
            raise UnschedulableError("constraints are not supported; remove them")
        return [_alternatives(request, classes) for request in devices.get("requests", ())]
    except UnschedulableError as why:
        raise UnschedulableError(f"claim {name}: {why}") from None


def _alternatives(request: Object, classes: Mapping[str, Object]) -> Alternatives:
    name = request["name"]
    if exactly := request.get("exactly"):
        return (_wanted(name, exactly, classes),)
    if listed := request.get("firstAvailable"):
        return tuple(_wanted(f"{name}/{one['name']}", one, classes) for one in listed)
    raise UnschedulableError(f"request {name}: set `exactly` or `firstAvailable`")


def _wanted(name: str, request: Object, classes: Mapping[str, Object]) -> DeviceRequest:
    device_class = request.get("deviceClassName", "")
    if device_class not in classes:
        raise UnschedulableError(f"request {name}: device class {device_class} does not exist")
    if unsupported := [field for field in _UNSUPPORTED if request.get(field)]:
        raise UnschedulableError(f"request {name}: {unsupported[0]} is not supported; remove it")
    selectors = [*classes[device_class].get("spec", {}).get("selectors", ()), *request.get("selectors", ())]
    return DeviceRequest(
        name,
        device_class,
        drivers=tuple(_driver(name, selector) for selector in selectors),
        count=_count(name, request),
        admin=bool(request.get("adminAccess")),
        tolerations=tuple(_toleration(toleration) for toleration in request.get("tolerations", ())),
    )


def _driver(name: str, selector: Any) -> str:
    expression = selector.get("cel", {}).get("expression", "")
    if form := _DRIVER_SELECTOR.fullmatch(expression):
        return form[2]
    raise UnschedulableError(
        f'request {name}: this scheduler understands no selector but device.driver == "NAME", not {expression}'
    )


def _count(name: str, request: Object) -> int | None:
    mode = request.get("allocationMode") or "ExactCount"
    if mode == "All":
        return None
    if mode != "ExactCount":
        raise UnschedulableError(f"request {name}: allocationMode must be ExactCount or All, got {mode}")
    return int(request.get("count") or 1)


def _toleration(toleration: Object) -> Toleration:
    return Toleration(
        toleration.get("key", ""),
        toleration.get("operator") or "Equal",
        toleration.get("value", ""),
        toleration.get("effect", ""),
    )
