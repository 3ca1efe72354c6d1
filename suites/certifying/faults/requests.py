"""Adapters that send requests: to an HTTP server, and to the API server of the driver."""

from collections.abc import Mapping
from typing import Any

import aiohttp

from drahealth.fakes.cluster.api import KINDS, ApiError, Kind, Object
from drahealth.fakes.cluster.list_watch import ListWatch
from drahealth.fakes.cluster.other_kinds import OTHER_KINDS
from drahealth.fakes.hints import near
from drahealth.proto.quoting import one_line
from drahealth.suites.checking.faults import PatchObject
from drahealth.suites.checking.subject.adapters import ActionFailed

_ATTEMPTS = 5
_CONFLICT = 409
_FIRST_ERROR = 400
_WORDS = 300  # characters of an answer


async def call_http(url: str, method: str, body: str, headers: Mapping[str, str]) -> None:
    """Sends a request. Raises ActionFailed if there is no answer, or an error."""
    try:
        async with (
            aiohttp.ClientSession() as session,
            session.request(method, url, data=body or None, headers=headers, allow_redirects=False) as response,
        ):
            if response.status >= _FIRST_ERROR:
                text = one_line(await response.text(errors="replace"), _WORDS)
                raise ActionFailed(f"{method} {url} was answered with status {response.status}: {text}")
    except (aiohttp.ClientError, OSError, ValueError) as error:
        raise ActionFailed(f"{method} {url} failed: {one_line(str(error) or type(error).__name__, _WORDS)}") from None


async def patch(api: ListWatch | None, action: PatchObject) -> None:
    """Merges fields into an object. Raises ActionFailed."""
    if api is None:
        raise ActionFailed("the driver has no API server")
    name, namespace, merge = action.name, action.namespace or "default", action.merge
    for attempt in range(_ATTEMPTS):
        try:
            kind = await _kind(api, action)
            old = await api.get(kind, name, namespace if kind.namespaced else None)
            new = merged(old, merge)
            stored = await api.replace(kind, new)
            if "status" in merge and kind.has_status:
                await api.replace_status(kind, {**stored, "status": new.get("status")})
        except ApiError as error:
            if error.status != _CONFLICT or attempt == _ATTEMPTS - 1:
                raise ActionFailed(f"cannot patch {action.kind} {name}: {error}") from None
        else:
            return


async def _kind(api: ListWatch, action: PatchObject) -> Kind:
    if action.api_version:
        metadata = {"namespace": action.namespace} if action.namespace else {}
        return await api.kind_of({"apiVersion": action.api_version, "kind": action.kind, "metadata": metadata})
    known = {one.kind: one for one in (*OTHER_KINDS, *KINDS)}
    if action.kind not in known:
        raise ActionFailed(f"unknown kind {action.kind}; {near(action.kind, known)}")
    return known[action.kind]


def merged(target: Any, changes: Any) -> Any:
    """The target after a JSON merge patch. Source: RFC 7396, section 2."""
    if not isinstance(changes, Mapping):
        return changes
    result: Object = dict(target) if isinstance(target, Mapping) else {}
    for key, value in changes.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), value)
    return result
