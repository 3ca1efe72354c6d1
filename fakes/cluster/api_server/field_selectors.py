"""Field selectors of the API, `metadata.name=train,spec.nodeName=node-a`, for the fields that an object cannot leave.

A watch with a selector must tell of an object that is changed so that it no longer matches. With these fields that does
not happen, so a watch is the plain one without what does not match.
"""

import re
from collections.abc import Callable

from drahealth.fakes.cluster.api import Object
from drahealth.fakes.cluster.api_server import refusals

FIELDS = ("metadata.name", "metadata.namespace", "spec.nodeName", "spec.driver")

_TERM = re.compile(r"\s*([\w.]+)\s*(==|=|!=)\s*(.*?)\s*")


Matches = Callable[[Object], bool]


def field_selector(text: str) -> Matches:
    """Whether an object matches; the empty text matches all. `ApiError` 400 for what is no selector or not served."""
    terms = [_term(term) for term in text.split(",") if term.strip()]
    return lambda obj: all((_value(obj, field) == value) is equal for field, equal, value in terms)


def _term(text: str) -> tuple[str, bool, str]:
    form = _TERM.fullmatch(text)
    if form is None:
        raise refusals.bad_request(f"invalid field selector {text!r}: write it as field=value or field!=value")
    field, operator, value = form.groups()
    is_left = field == "spec.nodeName" and (operator == "!=" or not value)  # by a pod, when it is bound
    if field not in FIELDS or is_left:
        raise refusals.bad_request(f"this API server does not select by {text.strip()!r}; it knows {', '.join(FIELDS)}")
    return field, operator != "!=", value


def _value(obj: Object, field: str) -> str:
    part, _, name = field.partition(".")
    return str(obj.get(part, {}).get(name) or "")
