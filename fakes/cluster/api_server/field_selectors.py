"""Field selectors of the API, such as `metadata.name=train,spec.nodeName=node-a`."""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from drahealth.fakes.cluster.api import Kind, Object
from drahealth.fakes.cluster.api_server import refusals
from drahealth.fakes.cluster.api_server.selected_changes import Matches
from drahealth.fakes.cluster.other_kinds import is_of_kubernetes

_EVENT = (
    *("involvedObject.kind", "involvedObject.namespace", "involvedObject.name", "involvedObject.uid"),
    *("involvedObject.apiVersion", "involvedObject.resourceVersion", "involvedObject.fieldPath"),
    *("reason", "reportingComponent", "source", "type"),
)
_POD = (
    *("spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName", "spec.hostNetwork"),
    *("status.phase", "status.podIP", "status.podIPs", "status.nominatedNodeName"),
)
_FIELDS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "Event": _EVENT,
        "Namespace": ("status.phase",),
        "Node": ("spec.unschedulable",),
        "Pod": _POD,
        "ResourceSlice": ("spec.nodeName", "spec.driver", "spec.pool.name"),
        "Secret": ("type",),
        "Service": ("spec.clusterIP", "spec.type"),
    }
)
"""The fields of a kind besides its name and namespace, as of stored objects. In `events.k8s.io`, `regarding` is the
name of `involvedObject`. Source: k8s.io/kubernetes, `pkg/apis`, AddFieldLabelConversionFunc.
"""

_TERM = re.compile(r"([^=!]*?)\s*(==|=|!=)\s*(.*?)\s*")
_ESCAPED = re.compile(r"\\([\\,=])")


def field_selector(text: str, kind: Kind) -> Matches:
    """A function that tests whether a stored object of the kind matches. Empty text matches all.

    `ApiError` 400 for an invalid selector, or a field that the kind does not select by.
    """
    parts = sorted(part for part in re.split(r"(?<!\\),", text) if part)
    terms = [_term(text, part, kind) for part in parts]
    return lambda obj: all((_value(obj, field) == value) is equal for field, equal, value in terms)


def _term(text: str, part: str, kind: Kind) -> tuple[str, bool, str]:
    form = _TERM.fullmatch(part.strip())
    if form is None:
        raise refusals.bad_request(f"invalid selector: '{text:.200}'; can't understand '{part:.200}'")
    field, operator, value = form.groups()
    _check(field, kind)
    stored = _IN_STORED_EVENTS.get(field, field.replace("regarding.", "involvedObject."))
    return stored, operator != "!=", _ESCAPED.sub(r"\1", value)


_IN_STORED_EVENTS = {"reportingController": "reportingComponent", "spec.host": "spec.nodeName"}


def _check(field: str, kind: Kind) -> None:
    own = _FIELDS.get(kind.kind) if is_of_kubernetes(kind.api_version) else None
    names = ["metadata.name", *(own or ())]
    if own is None or kind.namespaced:
        names.append("metadata.namespace")
    if kind.api_version == "events.k8s.io/v1":
        names = [name.replace("involvedObject.", "regarding.") for name in names] + ["reportingController"]
    if kind.kind == "Pod":
        names.append("spec.host")
    if field in names:
        return
    if not is_of_kubernetes(kind.api_version):
        raise refusals.bad_request(f"field label not supported: {field}")
    if own is None:
        raise refusals.bad_request(
            f'"{field}" is not a known field selector: only "metadata.name", "metadata.namespace"'
        )
    if kind.kind == "ResourceSlice":
        raise refusals.bad_request(f"field label not supported for {kind.api_version}, Kind={kind.kind}: {field}")
    raise refusals.bad_request(f"field label not supported: {field}")


def _value(obj: Object, field: str) -> str:
    found: Any = obj
    for name in field.split("."):
        found = found.get(name) if isinstance(found, dict) else None
    if isinstance(found, dict):  # the source of an Event
        found = found.get("component")
    return _text(found) or _ZERO.get(field, "")


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value or "")


_ZERO = {"spec.unschedulable": "false", "spec.hostNetwork": "false"}
