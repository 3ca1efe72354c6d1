"""Lists and watches: their options, selectors, pages and revisions."""

import base64
import binascii
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from drahealth.fakes.cluster import refusals
from drahealth.fakes.cluster.api import Kind, Object, is_of_kubernetes
from drahealth.fakes.cluster.api_server.storage import Change
from drahealth.fakes.cluster.refusals import FieldError

# The options of lists and watches, read and checked as a real API server does. Pure.
#
# Source: k8s.io/apimachinery, `pkg/apis/meta/internalversion/validation`, ValidateListOptions.

_EXACT, _NOT_OLDER = "Exact", "NotOlderThan"


@dataclass(frozen=True, slots=True)
class ListOptions:
    """What a client asks for, besides selectors. `timeout` in seconds."""

    watch: bool = False
    limit: int = 0
    start: "Continue | None" = None
    """Where the previous page has ended."""
    revision: str = ""
    exact: bool = False
    """The list must be of this revision."""
    timeout: int | None = None
    bookmarks: bool = False
    initial_events: bool = False
    """The watch begins with the existing objects, and a bookmark after them."""

    def page_limit(self, kind: Kind) -> int:
        """The limit of a page. The watch cache, which answers at revision 0, ignores it; Events have no cache."""
        is_cached = self.revision == "0" and self.start is None and kind.kind != "Event"
        return 0 if is_cached else self.limit


@dataclass(frozen=True, slots=True)
class Continue:
    """The place after a page: the revision of the list, and the key of the last object."""

    revision: int
    key: tuple[str, str]

    def token(self) -> str:
        """The token of this place, in the form of Kubernetes."""
        start = "/".join(part for part in self.key if part)
        text = json.dumps({"v": "meta.k8s.io/v1", "rv": self.revision, "start": f"{start}\0"}, separators=(",", ":"))
        return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def list_options(query: Mapping[str, str]) -> ListOptions:
    """The options in a query. Raises `ApiError` 400 or 422."""
    watch, initial = _flag(query, "watch"), _flag(query, "sendInitialEvents")
    match, revision = query.get("resourceVersionMatch", ""), query.get("resourceVersion", "")
    limit, timeout = _number(query, "limit"), _number(query, "timeoutSeconds")
    errors = _watch_errors(query, match) if watch else _list_errors(query, match, revision)
    if errors:
        raise refusals.invalid_options("ListOptions", errors)
    if query.get("continue") and revision not in ("", "0") and not watch:
        raise refusals.bad_request("specifying resource version is not allowed when using continue")
    start = continue_of(query["continue"]) if query.get("continue") and not watch else None
    return ListOptions(
        bool(watch),
        max(limit or 0, 0),
        start,
        revision,
        match == _EXACT,
        timeout or None,
        bool(_flag(query, "allowWatchBookmarks")),
        bool(initial),
    )


def _list_errors(query: Mapping[str, str], match: str, revision: str) -> list[FieldError]:
    at, errors = "resourceVersionMatch", list[FieldError]()
    if match and not revision:
        errors.append(refusals.forbidden(at, f"{at} is forbidden unless resourceVersion is provided"))
    if match and query.get("continue"):
        errors.append(refusals.forbidden(at, f"{at} is forbidden when continue is provided"))
    if match not in ("", _EXACT, _NOT_OLDER):
        errors.append(refusals.unsupported_value(at, match, (_EXACT, _NOT_OLDER, "")))
    if match == _EXACT and revision == "0":
        errors.append(refusals.forbidden(at, f'{at} "exact" is forbidden for resourceVersion "0"'))
    if "sendInitialEvents" in query:
        errors.append(refusals.forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"))
    return errors


def _watch_errors(query: Mapping[str, str], match: str) -> list[FieldError]:
    at, errors, initial = "resourceVersionMatch", list[FieldError](), "sendInitialEvents" in query
    if initial and match != _NOT_OLDER:
        errors.append(refusals.forbidden(at, f"sendInitialEvents requires setting {at} to {_NOT_OLDER}"))
    if match and not initial:
        errors.append(refusals.forbidden(at, f"{at} is forbidden for watch unless sendInitialEvents is provided"))
    if match not in ("", _NOT_OLDER):
        errors.append(refusals.unsupported_value(at, match, (_NOT_OLDER,)))
    if query.get("continue") and (match or query.get("resourceVersion", "") in ("", "0")):
        errors.append(refusals.forbidden(at, f"{at} is forbidden when continue is provided"))
    return errors


def continue_of(token: str) -> Continue:
    """The place of a token. Raises `ApiError` 400."""
    try:
        found = json.loads(base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True))
        start = found["start"].removesuffix("\0").removeprefix("/")
        namespace, _, name = start.rpartition("/")
        return Continue(int(found["rv"]), (namespace, name))
    except (binascii.Error, ValueError, KeyError, TypeError, AttributeError):
        raise refusals.bad_request("invalid continue token: continue key is not valid") from None


def _flag(query: Mapping[str, str], name: str) -> bool | None:
    """A boolean as Kubernetes reads it: present means true, unless it is 0 or false."""
    if name not in query:
        return None
    return query[name].lower() not in ("0", "false")


def _number(query: Mapping[str, str], name: str) -> int | None:
    if not (text := query.get(name)):
        return None
    try:
        return int(text)
    except ValueError:
        raise refusals.bad_request(f'strconv.ParseInt: parsing "{text:.80}": invalid syntax') from None


# The changes of a watch with selectors. Pure.
#
# An object that begins to match is ADDED for the watcher, and one that ceases to match is DELETED, as it was before.

Matches = Callable[[Object], bool]


def everything(_: Object) -> bool:
    """Matches all objects."""
    return True


def selected(change: Change, matches: Matches) -> Change | None:
    """The change as the watcher sees it; None if it concerns no selected object."""
    if change.type == "ADDED":  # also every object at the begin of a watch
        return change if matches(change.object) else None
    before = change.before is not None and matches(change.before)
    if change.type == "DELETED":
        return change if before else None
    if matches(change.object):
        return change if before else replace(change, type="ADDED")
    return replace(change, type="DELETED", object=_before(change)) if before else None


def _before(change: Change) -> Object:
    """The object before the change, with the revision of the change."""
    assert change.before is not None
    revision = change.object["metadata"]["resourceVersion"]
    return {**change.before, "metadata": {**change.before["metadata"], "resourceVersion": revision}}


# Field selectors of the API, such as `metadata.name=train,spec.nodeName=node-a`.

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

_FIELD_TERM = re.compile(r"([^=!]*?)\s*(==|=|!=)\s*(.*?)\s*")
_ESCAPED = re.compile(r"\\([\\,=])")


def field_selector(text: str, kind: Kind) -> Matches:
    """A function that tests whether a stored object of the kind matches. Empty text matches all.

    `ApiError` 400 for an invalid selector, or a field that the kind does not select by.
    """
    parts = sorted(part for part in re.split(r"(?<!\\),", text) if part)
    terms = [_term(text, part, kind) for part in parts]
    return lambda obj: all((_value(obj, field) == value) is equal for field, equal, value in terms)


def _term(text: str, part: str, kind: Kind) -> tuple[str, bool, str]:
    form = _FIELD_TERM.fullmatch(part.strip())
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


# Label selectors of the API, such as `app=train,tier in (web, api),!old`.
#
# Source: k8s.io/apimachinery, `pkg/labels`.

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


# Lists in pages, and lists as they were at an earlier revision. Pure.


@dataclass(frozen=True, slots=True)
class Selector:
    """The selectors of a request."""

    labels: Matches
    fields: Matches
    is_empty: bool
    """The request has no selector."""

    def __call__(self, obj: Object) -> bool:
        return self.labels(obj) and self.fields(obj)


@dataclass(frozen=True, slots=True)
class Page:
    """Some objects of a list at one revision, and where the next page begins; None for the last page."""

    objects: Sequence[Object]
    revision: str
    next: Continue | None = None
    remaining: int | None = None
    """The number of objects in later pages; None if the request has a selector."""


def page_of(objects: Sequence[Object], revision: int, start: Continue | None, limit: int, matches: Selector) -> Page:
    """The page after `start` of these sorted objects, with at most `limit` objects; 0 for no limit."""
    left = [obj for obj in objects if (start is None or _key(obj) > start.key) and matches(obj)]
    if not limit or len(left) <= limit:
        return Page(left, str(revision))
    page = left[:limit]
    remaining = len(left) - limit if matches.is_empty else None
    return Page(page, str(revision), Continue(revision, _key(page[-1])), remaining)


def _key(obj: Object) -> tuple[str, str]:
    return obj["metadata"].get("namespace", ""), obj["metadata"]["name"]
