"""Validates ResourceClaims: their requests, and the changes of their status. Pure.

Source: Kubernetes 1.37, `pkg/apis/resource/validation`.
"""

from collections.abc import Iterator, Sequence

from drahealth.fakes.cluster.api import Object
from drahealth.fakes.cluster.api_server import refusals
from drahealth.fakes.cluster.api_server.refusals import FieldError

_MODES = ("All", "ExactCount")


def request_errors(spec: Object, at: str) -> Iterator[FieldError]:
    """The errors in the requests of the spec of a claim, which is at this path."""
    seen = set[str]()
    for index, request in enumerate((spec.get("devices") or {}).get("requests") or ()):
        path, exactly = f"{at}.devices.requests[{index}]", request.get("exactly")
        if request.get("name") in seen:
            yield refusals.duplicate_value(path, _with_defaults(request))
        seen.add(request.get("name", ""))
        if exactly is not None and request.get("firstAvailable"):
            why = "exactly one of `exactly` or `firstAvailable` is required, but multiple fields are set"
            yield refusals.invalid_value(path, None, why)
        elif exactly is not None:
            yield from _exact_errors(exactly, f"{path}.exactly")
        elif not request.get("firstAvailable"):
            yield refusals.required_value(path, "exactly one of `exactly` or `firstAvailable` is required")


def _with_defaults(request: Object) -> Object:
    exactly = request.get("exactly")
    if exactly is None or exactly.get("allocationMode") not in (None, "", "ExactCount"):
        return request
    return {**request, "exactly": {**exactly, "allocationMode": "ExactCount", "count": exactly.get("count", 1)}}


def _exact_errors(exactly: Object, at: str) -> Iterator[FieldError]:
    mode, count = exactly.get("allocationMode") or "ExactCount", exactly.get("count", 1)
    if not exactly.get("deviceClassName"):
        yield refusals.required_value(f"{at}.deviceClassName")
    if mode not in _MODES:
        yield refusals.unsupported_value(f"{at}.allocationMode", mode, _MODES)
    elif mode == "ExactCount" and count < 1:
        yield refusals.invalid_value(f"{at}.count", count, "must be greater than zero")


def status_errors(new: Object, old: Object) -> Iterator[FieldError]:
    """The errors of an update of the status: an allocation does not change, and a reserved claim is allocated."""
    allocation, before = new.get("allocation"), old.get("allocation")
    if allocation and before and _devices(allocation) != _devices(before):
        yield refusals.invalid_value("status.allocation", None, "field cannot be modified once set")
    if not allocation and new.get("reservedFor"):
        yield refusals.forbidden("status.reservedFor", "may not be specified when `allocated` is not set")


def _devices(allocation: Object) -> Sequence[tuple[str, ...]]:
    keys = ("request", "driver", "pool", "device", "shareID")
    results = (allocation.get("devices") or {}).get("results") or ()
    return [tuple(str(result.get(key)) for key in keys) for result in results]
