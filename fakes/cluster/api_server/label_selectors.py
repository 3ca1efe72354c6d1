"""Label selectors of the API, such as `app=train,tier in (web, api),!old`.

Source: k8s.io/apimachinery, `pkg/labels`.
"""

import re
from collections.abc import Callable, Mapping

from drahealth.fakes.cluster.api import Object
from drahealth.fakes.cluster.api_server import refusals
from drahealth.fakes.cluster.api_server.selected_changes import Matches

_Requirement = Callable[[str | None], bool]
"""Whether the value of a label, None without it, fulfils a requirement."""

_KEY = r"(?:[a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_VALUE = re.compile(r"(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
_TERM = re.compile(
    rf"\s*(?:!\s*(?P<absent>{_KEY})|(?P<key>{_KEY})"
    r"(?:\s*(?P<operator>==|=|!=|>|<)\s*(?P<value>[^\s,()!=<>]*)|\s+(?P<set>in|notin)\s*\((?P<values>[^()]*)\))?"
    r")\s*(?P<end>,|$)"
)


def label_selector(text: str) -> Matches:
    """A function that tests whether an object matches; empty text matches all. `ApiError` 400 if invalid."""
    terms = _terms(text) if text.strip() else []
    return lambda obj: all(fulfils(_labels(obj).get(key)) for key, fulfils in terms)


def _terms(text: str) -> list[tuple[str, _Requirement]]:
    terms, at, is_open = [], 0, True
    while is_open:
        found = _TERM.match(text, at)
        if found is None:
            hint = "use KEY, !KEY, KEY=VALUE, KEY!=VALUE, KEY in (VALUE, ...) or KEY notin (VALUE, ...)"
            raise refusals.bad_request(f"invalid label selector {text!r:.200} at {text[at:]!r:.50}; {hint}")
        terms.append((found["absent"] or found["key"], _requirement(found)))
        at, is_open = found.end(), found["end"] == ","
    return terms


def _requirement(found: re.Match[str]) -> _Requirement:
    if found["absent"]:
        return lambda label: label is None
    operator = found["operator"] or found["set"]
    if operator is None:
        return lambda label: label is not None
    if operator in ("<", ">"):
        return _comparison(operator, found["value"])
    values = [_checked(value.strip()) for value in (found["values"] or found["value"] or "").split(",")]
    if operator in ("=", "==", "in"):
        return lambda label: label in values
    return lambda label: label not in values


def _comparison(operator: str, text: str) -> _Requirement:
    if not re.fullmatch(r"-?\d{1,18}", text):
        raise refusals.bad_request(f"a label selector with {operator} needs an integer, got {text!r:.100}")
    limit = int(text)

    def fulfils(label: str | None) -> bool:
        if label is None or not re.fullmatch(r"-?\d{1,18}", label):
            return False
        return int(label) > limit if operator == ">" else int(label) < limit

    return fulfils


def _checked(value: str) -> str:
    if not _VALUE.fullmatch(value):
        rule = "it must have at most 63 letters, digits, '-', '_' or '.', and begin and end with a letter or a digit"
        raise refusals.bad_request(f"invalid label value {value!r:.100} in a selector: {rule}")
    return value


def _labels(obj: Object) -> Mapping[str, str]:
    return obj["metadata"].get("labels") or {}
