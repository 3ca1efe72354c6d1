"""Validates ResourceSlices: their pool, node and devices, and the fields that an update cannot change. Pure.

Source: Kubernetes 1.37, `pkg/apis/resource/validation`.
"""

from collections.abc import Iterator

from drahealth.fakes.cluster.api import Object
from drahealth.fakes.cluster.api_server import refusals
from drahealth.fakes.cluster.api_server.metadata_validation import label_name_errors, subdomain_errors
from drahealth.fakes.cluster.api_server.refusals import FieldError

_LONGEST_POOL_NAME = 253
_NODES = ("nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection")
_ONE_OF = f"exactly one of {', '.join(f'`{name}`' for name in _NODES)} is required"


def slice_errors(spec: Object) -> Iterator[FieldError]:
    """The errors in the spec of a ResourceSlice."""
    yield from _name_errors(spec.get("driver") or "", "spec.driver")
    pool = spec.get("pool") or {}
    yield from _pool_name_errors(pool.get("name") or "")
    if pool.get("resourceSliceCount", 0) <= 0:
        count = pool.get("resourceSliceCount", 0)
        yield refusals.invalid_value("spec.pool.resourceSliceCount", count, "must be greater than zero")
    if pool.get("generation", 0) < 0:
        yield refusals.invalid_value(
            "spec.pool.generation", pool["generation"], "must be greater than or equal to zero"
        )
    yield from _node_errors(spec)
    names = set[str]()
    for index, device in enumerate(spec.get("devices") or ()):
        at, name = f"spec.devices[{index}]", device.get("name") or ""
        if name in names:
            yield refusals.duplicate_value(at, name)
        names.add(name)
        yield from (refusals.invalid_value(f"{at}.name", name, why) for why in label_name_errors(name))


def _pool_name_errors(name: str) -> Iterator[FieldError]:
    """The errors in the name of a pool: names with dots, joined by slashes."""
    at = "spec.pool.name"
    if not name:
        yield refusals.required_value(at)
        return
    if len(name) > _LONGEST_POOL_NAME:
        yield refusals.too_long(at, _LONGEST_POOL_NAME)
    for part in name.split("/"):
        yield from (refusals.invalid_value(at, part, why) for why in subdomain_errors(part))


def _name_errors(name: str, at: str) -> Iterator[FieldError]:
    if not name:
        yield refusals.required_value(at)
        return
    yield from (refusals.invalid_value(at, name, why) for why in subdomain_errors(name))


def _node_errors(spec: Object) -> Iterator[FieldError]:
    given = [name for name in _NODES if spec.get(name)]
    if spec.get("nodeName"):
        yield from _name_errors(spec["nodeName"], "spec.nodeName")
    if len(given) > 1:
        shown = f"{{{', '.join(f'`{name}`' for name in given)}}}"
        yield refusals.invalid_value("spec", shown, f"{_ONE_OF}, but multiple fields are set")
    if not given:
        yield refusals.required_value("spec", _ONE_OF)


def moved_errors(new: Object, old: Object) -> Iterator[FieldError]:
    """The errors of an update of the spec that changes the driver, the pool or the node."""
    for path in ("driver", "pool.name", "nodeName"):
        wanted, before = _at(new, path), _at(old, path)
        if wanted != before:
            yield refusals.invalid_value(f"spec.{path}", wanted, "field is immutable")


def _at(spec: Object, path: str) -> object:
    outer, _, inner = path.partition(".")
    return (spec.get(outer) or {}).get(inner) if inner else spec.get(outer)
