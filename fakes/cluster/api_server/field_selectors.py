"""Field selectors of the API, such as `metadata.name=train,spec.nodeName=node-a`."""

import re

from drahealth.fakes.cluster.api import Object
from drahealth.fakes.cluster.api_server import refusals
from drahealth.fakes.cluster.api_server.selected_changes import Matches

FIELDS = (
    *("metadata.name", "metadata.namespace", "spec.nodeName", "spec.driver", "status.phase"),
    *("involvedObject.kind", "involvedObject.namespace", "involvedObject.name", "involvedObject.uid", "reason", "type"),
)
"""The fields, as of stored objects. In `events.k8s.io`, `regarding` is the name of `involvedObject`."""

_TERM = re.compile(r"\s*([\w.]+)\s*(==|=|!=)\s*(.*?)\s*")


def field_selector(text: str) -> Matches:
    """A function that tests whether a stored object matches; empty text matches all. `ApiError` 400 if invalid."""
    terms = [_term(term) for term in text.split(",") if term.strip()]
    return lambda obj: all((_value(obj, field) == value) is equal for field, equal, value in terms)


def _term(text: str) -> tuple[str, bool, str]:
    form = _TERM.fullmatch(text)
    if form is None:
        raise refusals.bad_request(f"invalid field selector {text!r}; use field=value or field!=value")
    field, operator, value = form.groups()
    field = field.replace("regarding.", "involvedObject.")
    if field not in FIELDS:
        raise refusals.bad_request(f"unsupported field selector {text.strip()!r}; use {', '.join(FIELDS)}")
    return field, operator != "!=", value


def _value(obj: Object, field: str) -> str:
    part, _, name = field.partition(".")
    found = obj.get(part)
    if name:
        found = found.get(name) if isinstance(found, dict) else None
    return str(found or "")
