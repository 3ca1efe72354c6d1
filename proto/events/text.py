"""The sentence for each event: in histories as text, in live views, and in `drahealth ctl watch`."""

from collections.abc import Iterator, Sequence
from dataclasses import fields

from drahealth.proto import events
from drahealth.proto.clock import format_seconds
from drahealth.proto.events import Event
from drahealth.proto.quoting import printable
from drahealth.proto.values import DeviceHealth, ResourceStatus

_DEVICES = 16
"""Maximum number of devices to print per report."""


def format_event(event: Event) -> str:
    """One event as one line. Unprintable characters are escaped as in Python."""
    return printable(_words(event))


def _words(event: Event) -> str:
    match event:
        case events.Step():
            return f"# {event.text}"
        case events.Registered():
            outcome = "registered" if event.ok else f"not registered: {event.error}"
            return f"{_who(event.driver, event.instance)} is {outcome}"
        case events.RegistrationCallFailed():
            return f"{_who(event.driver, event.instance)} answers {event.call} with an error: {event.error}"
        case events.Unregistered():
            return f"{_who(event.driver, event.instance)} deregisters, or ends"
        case events.StreamOpened():
            return f"{_who(event.driver, event.instance)}: stream {event.stream} opened ({event.health_api})"
        case events.StreamClosed():
            return f"{_who(event.driver, event.instance)}: stream {event.stream} closed: {event.why}"
        case events.ReportSent():
            kind = "reports" if event.complete else "reports in part"
            return f"{_who(event.driver, event.instance)} {kind} {_devices(event.devices)}"
        case events.DevicesListed():
            devices = ", ".join(f"{device.id} {_short(device.health)}" for device in event.devices) or "nothing"
            return f"{_who(event.driver, event.instance)} lists {devices}"
        case events.Prepared():
            devices = ", ".join(event.devices) or "no devices"
            return f"{_who(event.driver, event.instance)} prepared {devices} of claim {event.claim_uid}"
        case events.Unprepared():
            return f"{_who(event.driver, event.instance)} unprepared claim {event.claim_uid}"
        case events.ReportSummary():
            kind = "reports" if event.complete else "reports in part" if event.stream else "reported"
            return f"{event.driver} {kind} {event.devices} devices{f' on {event.stream}' if event.stream else ''}"
        case events.DeviceChanged():
            message = f" {_short(event.message)!r}" if event.message else ""
            return f"{event.driver}: {event.device} is {event.health}{message}"
        case events.DeviceUnlisted():
            return f"{event.driver} no longer lists {event.device}"
        case events.CommandDone():
            args = (f"{name}={value}" for name, value in event.args.items() if value not in ("", False, None, []))
            return f"{event.driver}: command {' '.join((event.command, *args))}"
        case events.StatusSeen():
            pending = f" ({_short(event.pending, 100)})" if event.pending else ""
            return f"{'':24}pod {event.pod} {event.phase}{pending}: {'; '.join(_places(event))}"
        case events.StatusWritten():
            outcome = f"rejected: {event.error}" if event.error else "written" if event.changed else "written unchanged"
            return f"{'':24}status of pod {event.pod} {outcome}"
        case events.PodStateSeen():
            conditions = (f"{kind}={status}" for kind, status in event.conditions)
            return f"{'':24}pod {event.pod} {event.phase}: {', '.join((*conditions, *map(_run, event.runs)))}"
        case events.PodRewritten():
            return f"{'':24}pod {event.pod} written, and only its times changed"
        case events.DevicesHeld():
            held = [f"{d.claim}/{d.request} {d.driver}/{d.pool}/{d.device}" for d in event.devices]
            held += [f"{resource.count} {resource.resource}" for resource in event.resources]
            return f"{'':24}pod {event.pod} holds {', '.join(dict.fromkeys(held)) or 'nothing'}"
        case events.EventSeen():
            times = f" ({event.count} times)" if event.count > 1 else ""
            return f"{'':24}event {event.reason} on pod {event.pod}: {_short(event.message, 100)}{times}"
        case events.GateSet():
            return f"gate {event.gate} is {_sides(event)}"
        case events.Stopped():
            return f"{event.component} stopped"
        case events.Restarted():
            return f"{event.component} restarted"
        case events.TimePassed():
            return f"{format_seconds(event.seconds)} passed"
        case events.TimeSkipped():
            return f"the timeline skipped {format_seconds(event.seconds)} without a change"
        case events.ReportReceived():
            return f"kubelet received from {event.driver}: {_devices(event.devices)}"
        case events.GrpcCall():
            _, _, method = event.method.rpartition("/")
            code = f"{event.code} {_short(event.details, 100)}".strip() or "no answer"
            return f"{event.caller} called {method} of {event.driver}: {code} after {format_seconds(event.seconds)}"
        case _:
            return f"{event.event}: {', '.join(_fields(event))}"


def _fields(event: Event) -> Iterator[str]:
    """The fields of an event that has no sentence of its own."""
    for field in fields(event):
        value = getattr(event, field.name)
        if value not in ("", None, (), {}):
            shown = f"{round(value, 6):.10g}" if isinstance(value, float) else str(value)
            yield f"{field.name} {_short(shown, 100)}"


def _devices(devices: Sequence[DeviceHealth]) -> str:
    more = len(devices) - _DEVICES
    shown = ", ".join(map(_device, devices[:_DEVICES])) or "nothing"
    return f"{shown}, and {more} more" if more > 0 else shown


def _who(driver: str, instance: str) -> str:
    return f"{driver} ({instance})" if instance else driver


def _sides(gate: events.GateSet) -> str:
    """One word if both sides are equal, or if only the combined state is known."""
    if gate.api_server == gate.kubelet or None in (gate.api_server, gate.kubelet):
        return _on(gate.on)
    return f"{_on(gate.api_server)} in the API server, {_on(gate.kubelet)} in the kubelet"


def _on(is_on: bool | None) -> str:
    return "on" if is_on else "off"


def _device(device: DeviceHealth) -> str:
    message = f" {_short(device.message)!r}" if device.message else ""
    return f"{device.device} {device.health}{message}"


def _places(status: events.StatusSeen) -> Iterator[str]:
    for container in (*status.init_containers, *status.containers):
        yield _container(container)
    if status.resources is not None:
        yield f"used by none: {', '.join(map(entry, status.resources)) or 'no entries'}"


def _container(container: events.ContainerSeen) -> str:
    restarts = f" after {container.restarts} restarts" if container.restarts else ""
    if container.resources is None:
        return f"{container.name} {container.state}{restarts}, no health"
    return f"{container.name} {container.state}{restarts}, {', '.join(map(entry, container.resources)) or 'no entries'}"


def _run(run: events.ContainerRun) -> str:
    words = (
        run.state,
        run.reason,
        *(word for word, holds in (("ready", run.ready), ("started", run.started)) if holds),
    )
    code = "" if run.exit_code is None else f" with exit code {run.exit_code}"
    return f"{run.name} {' '.join(filter(None, words))}{code}"


def entry(status: ResourceStatus) -> str:
    """One entry of `allocatedResourcesStatus` as text."""
    resources = (
        f"{r.resource_id}={r.health}" + (f" {_short(r.message)!r}" if r.message else "") for r in status.resources
    )
    return f"{status.name} [{', '.join(resources)}]"


def _short(message: str, limit: int = 40) -> str:
    return message if len(message) <= limit else message[: limit - 3] + "..."
