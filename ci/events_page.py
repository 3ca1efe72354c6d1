"""docs/events.md: the event vocabulary, written from the types in proto/events."""

import ast
import importlib
import inspect
from collections.abc import Iterator
from dataclasses import fields
from typing import Any

from drahealth.proto.events import EVENTS, IN_FULL, IN_SHORT

INTRODUCTION = """\
An event is one thing that happened. On the wire and in files it is a line with one JSON object; the key `event` has its
name. In Python the events are the types of `drahealth.proto.events`. There are three kinds of output:

- **Live output**: `drahealth driver serve --json`, `drahealth ctl watch --json` and `drahealth manager --json` print
  events. Each line also has `time` (RFC 3339). A slow reader misses lines; `left_out_before` is their number.
- **Histories**: `drahealth manager --history FILE` and `drahealth run --histories DIR` write events to files. Each line
  also has `at`, in monotonic seconds. The first line is a header: `{"format": "drahealth-history/v1", "drahealth":
  VERSION, "profile": NAME, "started": RFC 3339, "monotonic": SECONDS}`.
  `drahealth.proto.history.read_history(path)` reads a history.
- **Evidence**: `drahealth check --evidence FILE` writes events to a file ([check.md](check.md#evidence)). Each line
  also has `at`, in seconds since the start of the run, and `experiment`, the name of the experiment.

Histories have complete messages, in the events marked **history only**. In live output, `report` and `change` summarize
them.

"""

SECTIONS = {
    "plugin": "What a driver or device plugin does",
    "kubelet": "What the kubelet side sees",
    "summary": "Summaries of reports, for live output",
    "pods": "Pods, and actions of a scenario on the node",
    "programs": "Programs",
    "timelines": "Timelines",
    "checks": "Checks of a driver",
    "faults": "Fault adapters",
}

FIELDS = {
    "driver": "Name of the driver; for a device plugin its resource.",
    "instance": "Instance ID in a rolling update; empty if there is none, and on the kubelet side.",
    "endpoint": "Path of the plugin's socket; empty on the driver side. In `registration-failed`: path of the "
    "registration socket, or of the directory in which no socket appeared.",
    "stream": "Name of the stream, unique in a history.",
    "health_api": "API of the stream, as in [health-apis.md](health-apis.md).",
    "ok": "true for success, false for a failure.",
    "error": "Text of the error; empty without an error.",
    "why": "Reason, in a few words.",
    "problem": "What is wrong.",
    "devices": "Devices in the order of the message. DRA: pool, device, health, message, timeout (seconds), "
    "updated (Unix seconds). Device plugin: id, health.",
    "complete": "Whether the message listed all devices of the driver.",
    "undecoded": "Devices with unknown or invalid fields. `device` is the index of the device, or -1 for the "
    "message itself. `fields` has all fields that were received. Its key `unknown` has the number, wire type and value "
    "of each unknown field.",
    "size": "Size in bytes.",
    "claim_uid": "UID of the ResourceClaim.",
    "device": "Name of the device, POOL/NAME in reports of DRA drivers.",
    "health": "Healthy, Unhealthy or Unknown; for a device plugin the text that it reported.",
    "message": "Message; empty if there is none.",
    "request": "Fields of the request.",
    "method": "Service and method.",
    "fault": "Name of the fault in the driver profile.",
    "pool": "Name of the pool of the device.",
    "seconds": "Duration of the action.",
    "on_error": "Verdict of a check that judges this action, if the action fails: NOT_TESTED or FAIL.",
    "pod": "Name of the pod.",
    "uid": "UID of the pod.",
    "namespace": "Namespace.",
    "phase": "Phase of the pod.",
    "node": "Name of the node.",
    "reason": "Reason of the event.",
    "gate": "Name of the feature gate.",
    "component": "Name of the component.",
    "text": "The text.",
    "file": "Name of the file.",
    "command": "Name of the command.",
    "step": "Place of the step in the file, such as timeline.2.",
    "where": "File, line and step.",
    "expected": "What was expected.",
    "seed": "Seed of the plan.",
    "result": "Text of the result.",
    "code": "gRPC code.",
    "process": "Label of the driver process under test, such as main.",
    "outcome": "done, not applicable, incomplete (the driver or a deadline ended it) or error (drahealth failed).",
    "pid": "Process ID.",
    "by": "driver, or check for a deletion by `drahealth check`.",
    "moment": "When: registered (after the registration) or ended (after the end of the process).",
    "slice": "The object.",
    "slices": "The objects.",
    "name": "Name.",
    "specs": "The files: `file`, `problem` (empty for a valid CDI spec), `devices` (fully qualified names).",
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
    only = ", **history only**" if kind in IN_FULL else ", **live output only**" if kind in IN_SHORT else ""
    yield f"### `{word}`\n\n{inspect.getdoc(kind)}\n\n"
    yield f"Emitted by: {', '.join(kind.emitters)}{only}. Python type: `{kind.__name__}`.\n\n"
    if found := fields(kind):
        yield "| field | type | |\n|---|---|---|\n"
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
