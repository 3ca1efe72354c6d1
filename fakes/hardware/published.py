"""Convert devices to the form of the resource.k8s.io API."""

from collections.abc import Sequence

from drahealth.fakes.cluster.api import Object
from drahealth.fakes.control.taint import Taint
from drahealth.fakes.inventory.devices import Device


def published_device(device: Device, taints: Sequence[Taint] = ()) -> Object:
    """The device with its model, memory, parent device, other attributes and taints."""
    parent = {"parent": device.parent.replace("/", "-")} if device.parent else {}
    attributes = {"model": device.model, **parent, **device.attributes}
    return {
        "name": device.name,
        "attributes": {name: _attribute(value) for name, value in attributes.items()},
        "capacity": {"memory": {"value": device.memory}},
        **({"taints": [_taint(taint) for taint in taints]} if taints else {}),
    }


def _attribute(value: str | int | bool) -> Object:
    kind = "bool" if isinstance(value, bool) else "int" if isinstance(value, int) else "string"
    return {kind: value}


def _taint(taint: Taint) -> Object:
    value = {"value": taint.value} if taint.value else {}
    return {"key": taint.key, **value, "effect": taint.effect}
