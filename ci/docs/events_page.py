"""docs/reference/events.md: the event vocabulary, written from the types in proto/events."""

import ast
import importlib
import inspect
from collections.abc import Iterator
from dataclasses import fields
from typing import Any

from drahealth.proto.events import EVENTS, IN_FULL, IN_SHORT

INTRODUCTION = """\
An event is one thing that happened. drahealth prints or writes each event as one line with a JSON object. The key
`event` has the name of the event. In Python each event has a type in `drahealth.proto.events`. There are three kinds of
output:

- **Live output**: `drahealth driver serve --json`, `drahealth ctl watch --json` and `drahealth manager --json` print
  events. Each line also has `time` (RFC 3339). If a reader is too slow, lines are left out. The next line then has
  `left_out_before`: the number of lines that were left out.
- **Histories**: `drahealth manager --history FILE` and `drahealth run --histories DIR` write events to files. Each line
  also has `at`: the time in seconds on a monotonic clock. The first line is a header: `{"format":
  "drahealth-history/v1", "drahealth": VERSION, "profile": NAME, "started": RFC 3339, "monotonic": SECONDS}`. The keys
  `started` and `monotonic` have the time of the start: as date and time, and on the clock of `at`.
  `drahealth.proto.history.read_history(path)` reads a history.
- **Evidence**: `drahealth check --evidence FILE` writes events to a file
  ([drivers.md](../drivers.md#evidence)). Each line also has `at`, the time in
  seconds since the start of the run, and `experiment`, the name of the experiment.

Events with the mark **not in live output** are only in histories and in evidence. Events with the mark **live output
only** are summaries. Histories and evidence have the complete messages instead.

“Emitted by” names the part of drahealth that emits the event:

- `fake driver`: a fake driver or fake device plugin
- `manager`: the program in place of a kubelet. In `drahealth manager`, and in scenarios on the reference, this is the
  reference. In a check, it is the reference, or the part of drahealth that acts as the kubelet.
- `scenario`: a run of a scenario or a timeline
- `driver serve`: the command `drahealth driver serve`
- `check`: the command `drahealth check` or `drahealth certify`

"""

SECTIONS = {
    "plugin": "What a driver or device plugin does, and summaries of its reports",
    "kubelet": "What a kubelet receives and does",
    "pods": "Pods, and actions of a scenario on the node",
    "programs": "Programs and timelines",
    "checks": "Checks of a driver, and fault adapters",
}

FIELDS = {
    "driver": "Name of the driver. For a device plugin: name of its extended resource.",
    "instance": "ID of the instance in a rolling update; otherwise empty.",
    "endpoint": "Path of the plugin's socket.",
    "stream": "Name of the stream, unique in a history.",
    "health_api": "API of the stream, as in [health-apis.md](health-apis.md).",
    "ok": "true for success, false for a failure.",
    "error": "Text of the error; empty if there was no error.",
    "why": "Reason, in a few words.",
    "problem": "What is wrong.",
    "devices": "Devices in the order of the message, each with `pool`, `device`, `health`, `message`, `timeout` (in "
    "seconds) and `updated` (last_updated_time, in Unix seconds).",
    "complete": "Whether the message listed all devices of the driver.",
    "undecoded": "Devices with unknown or invalid fields. `device` is the index of the device in `devices`, or -1 for "
    "the message itself. `fields` has all received fields. The key `unknown` in `fields` has the number, wire type and "
    "value of each unknown field.",
    "size": "Size of the message in bytes.",
    "claim_uid": "UID of the ResourceClaim.",
    "device": "Name of the device in the timeline; empty if the step has no device.",
    "health": "Healthy, Unhealthy or Unknown. For a device plugin: the text in its list.",
    "message": "Message; empty if there is none.",
    "request": "Fields of the request.",
    "method": "Service and method.",
    "fault": "Name of the fault in the driver profile.",
    "pool": "Name of the pool of the device.",
    "seconds": "Duration of the action.",
    "on_error": "Verdict of a check that judges this action, if the action fails: NOT_TESTED or FAIL.",
    "pod": "Name of the pod.",
    "uid": "UID of the pod.",
    "namespace": "Namespace of the pod.",
    "phase": "Phase of the pod.",
    "node": "Name of the node.",
    "reason": "Reason of the Event.",
    "gate": "Name of the feature gate.",
    "component": "Name of the component, such as kubelet.",
    "text": "The text.",
    "file": "Name of the file.",
    "command": "Name of the command.",
    "step": "Place of the step in the file, such as timeline.2.",
    "where": "Place of the step: file, line and step.",
    "expected": "The expected status, as text.",
    "seed": "Seed of the plan.",
    "result": "Text of the result.",
    "code": "gRPC code.",
    "process": "Label of the driver process, such as main.",
    "outcome": "done, not applicable, incomplete (the driver or a deadline ended the experiment) or error (drahealth "
    "failed).",
    "pid": "Process ID.",
    "by": "Who changed the ResourceSlice: driver, or check for `drahealth check`.",
    "moment": "Time of the listing: registered (after the registration) or ended (after the end of the process).",
    "slice": "The ResourceSlice.",
    "slices": "The ResourceSlices.",
    "name": "Name of the ResourceClaim.",
    "specs": "The files, each with `file`, `problem` (empty for a valid CDI spec) and `devices` (fully qualified "
    "names).",
    "reachable": "Whether the driver can reach the API server now.",
}


def events_page(generated: str) -> str:
    """The page. Raises KeyError for a field that is explained nowhere."""
    lines = ["# Events\n\n" + generated, INTRODUCTION]
    for module, title in SECTIONS.items():
        lines.append(f"## {title}\n\n")
        name = f"drahealth.proto.events.{module}"
        explained = explanations(name)
        for word, kind in EVENTS.items():
            if kind.__module__ == name:
                lines += event(word, kind, explained[kind.__name__])
    return "".join(lines)


def event(word: str, kind: Any, explained: dict[str, str]) -> Iterator[str]:
    only = ", **not in live output**" if kind in IN_FULL else ", **live output only**" if kind in IN_SHORT else ""
    yield f"### `{word}`\n\n{inspect.getdoc(kind)}\n\n"
    yield f"Emitted by: {', '.join(kind.emitters)}{only}. Python type: `{kind.__name__}`.\n\n"
    if found := fields(kind):
        yield "| field | type | meaning |\n|---|---|---|\n"
        for field in found:
            about = explained.get(field.name) or FIELDS[field.name]
            yield f"| `{field.name}` | {type_of(field.type)} | {about} |\n"
        yield "\n"


def type_of(annotation: Any) -> str:
    """The type, as a reader of JSON knows it."""
    name = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", str(annotation))
    if isinstance(annotation, type) and not getattr(annotation, "__args__", ()):
        return {"str": "string", "bool": "boolean", "int": "integer", "float": "number"}.get(name, "object")
    text = str(annotation)
    if text.startswith("tuple["):
        return "list"
    null = " or null" if text.endswith("| None") else ""
    for python, json in (("str", "string"), ("bool", "boolean"), ("Literal", "string"), ("dict", "object")):
        if text.startswith((python, f"typing.{python}")):
            return json + null
    return "list" + null if text.startswith("tuple") else "any JSON"


def explanations(module: str) -> dict[str, dict[str, str]]:
    """The docstring of each field, by class and field."""
    tree = ast.parse(inspect.getsource(importlib.import_module(module)))
    return {node.name: dict(of_class(node)) for node in tree.body if isinstance(node, ast.ClassDef)}


def of_class(node: ast.ClassDef) -> Iterator[tuple[str, str]]:
    for field, text in zip(node.body, node.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant):
            assert isinstance(field.target, ast.Name)
            yield field.target.id, " ".join(str(text.value.value).split())
