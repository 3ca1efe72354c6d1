"""Edits of the evidence of a healthy device plugin: each makes the plugin wrong in one way."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from drahealth.proto.events import (
    Event,
    FaultCleared,
    FaultInjected,
    GrpcCall,
    ListReceived,
    RegistrationFailed,
    StreamClosed,
)
from drahealth.proto.services import REGISTER, Unary
from drahealth.proto.values import PluginDevice
from drahealth.suites.unit.driver_checks.healthy_plugin_run import REGISTRATION, Edit


def calls(method: Unary[Any, Any], change: Callable[[GrpcCall], Event | None], *experiments: str) -> Edit:
    """Changes the calls of a method."""

    def edit(where: str, event: Event) -> Event | None:
        mine = isinstance(event, GrpcCall) and f"/{event.method}" == method.path
        return change(event) if mine and (not experiments or where in experiments) else event  # type: ignore[arg-type]

    return edit


def failing(call: GrpcCall) -> GrpcCall:
    return replace(call, code="INTERNAL", response=None, details="no")


def answering(**response: Any) -> Callable[[GrpcCall], GrpcCall]:
    return lambda call: replace(call, response=response) if call.code == "OK" else call


def registering(**fields: Any) -> Edit:
    return calls(REGISTER, lambda call: replace(call, request={**REGISTRATION, **fields}))


def lists(change: Callable[[tuple[PluginDevice, ...]], tuple[PluginDevice, ...]], *streams: str) -> Edit:
    """Changes the lists of these streams, or of all."""

    def edit(_: str, event: Event) -> Event:
        if isinstance(event, ListReceived) and (not streams or event.stream in streams):
            return replace(event, devices=change(event.devices))
        return event

    return edit


def without(kind: type[Event], experiment: str = "") -> Edit:
    return lambda where, event: None if isinstance(event, kind) and experiment in ("", where) else event


def instead(kind: type[Event], other: Event, experiment: str = "") -> Edit:
    return lambda where, event: other if isinstance(event, kind) and experiment in ("", where) else event


def unregistered(experiment: str, after: type[Event] | None = None) -> Edit:
    """There is no registration in an experiment; or none after an event."""
    seen: list[bool] = [after is None]

    def edit(where: str, event: Event) -> Event | None:
        if where != experiment:
            return event
        if after is not None and isinstance(event, after):
            seen[0] = True
        if isinstance(event, GrpcCall) and seen[0] and event.code == "OK":
            return None
        return event

    return edit


def swapped(call: GrpcCall) -> GrpcCall:
    responses = (call.response or {}).get("container_responses", [])
    return replace(call, response={"container_responses": responses[::-1]}) if call.response else call


def both(*edits: Edit) -> Edit:
    def edit(where: str, event: Event) -> Event | None:
        kept: Event | None = event
        for one in edits:
            kept = one(where, kept) if kept is not None else None
        return kept

    return edit


def missing(experiment: str) -> Edit:
    """The plugin does not register in time."""
    failed = RegistrationFailed("{device_plugins_dir}", "no device plugin registered within 60 s")
    gone = unregistered(experiment)
    return both(gone, lambda where, event: failed if isinstance(event, StreamClosed) and where == experiment else event)


def fault(**fields: Any) -> Edit:
    """Changes the fault, and its heal as far as it has these fields."""

    def edit(_: str, event: Event) -> Event:
        if isinstance(event, FaultInjected | FaultCleared):
            return replace(event, **{name: value for name, value in fields.items() if hasattr(event, name)})
        return event

    return edit
