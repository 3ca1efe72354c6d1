"""What the operators leave out by rule: no change of it changes what a kubelet of profile `kep` does. Pure."""

import ast
import operator
from collections.abc import Callable, Iterator
from typing import Any

from drahealth.fakes.cluster.api_server.gates import KEP_RULES
from drahealth.manager.profile import KEP

RULES = {
    "no behaviour": "Annotations, decorators, docstrings, assertions, and statements that raise an error.",
    "messages": "The texts of logs, errors and events; the choice of a log level; code that only logs or records what "
    "happens.",
    "speed": "The length of pauses between attempts, the time limits of calls, and how long a resource without a "
    "device plugin is kept. The texts define no numbers for these times. But operators can remove a whole pause, limit "
    "or attempt.",
    "releases": "Code that runs only with the profiles of releases. But operators change the conditions that depend on "
    "the profile.",
    "a kill": "Functions that simulate a killed kubelet.",
    "a damaged file": "Checks of checkpoints that another program has damaged. No text says what a kubelet does "
    "with such a checkpoint.",
    "the end": "Functions that stop the whole reference, or wait for this stop. Only the reference needs them, because "
    "it runs inside a process. To stop a real kubelet, scenarios kill its process.",
}
"""The rules by name, each with its sentence."""

_SILENT = ("log", "observe", "_log", "_observe")
"""Names of loggers and observers; functions whose name starts with `_log_` or `_observe_` only log or observe, too."""
_FOR_LOGS = {
    *("_complaint", "complaint", "_last_problem", "level", "wrong", "began", "refused", "_overfull"),
    *("REASON_LIMIT", "_WORDS", "_START", "_streams", "_code", "_why"),
}
"""Names of what only a log, an event or an error needs, such as the last reason that was logged."""
_SPEED = {
    *("GATHERING", "RESTING", "AGAIN", "INTERVAL", "_RESCAN", "_FIRST_RETRY", "_LAST_RETRY", "pause", "_CHANNEL"),
    *("CALL_LIMIT", "CONNECT_LIMIT", "DIAL_LIMIT", "INFO_LIMIT", "NOTIFY_LIMIT", "GRACE", "perf_counter"),
    *("_GRACE", "_TRIES"),
}
"""Names of pauses and time limits, and of the clock that only measures how long something took."""
_SPEED_ARGUMENTS = ("debounce", "step", "rust_timeout", "yield_on_timeout")
_KILL = {"abandon", "kill", "_is_abandoned"}
"""Names of functions that act as a kill, and of what they leave behind."""
_ENDS = {
    *("DeviceManager.stop", "DeviceManager.__aenter__", "DeviceManager.__aexit__"),
    *("DraManager.close", "DevicePluginManager.close", "Plugins.close", "KubeletSocket.stop"),
    *("RegistrationDirectory.stop", "HealthFile.close", "HealthFile.written", "PodDevices.close", "PodWorkers.stop"),
}
_FOR_RELEASES = {
    "turned",
    "MAP_SLOTS",
    "_wrapped",
    "_SECOND",
    "_has_field",
    "_has_message",
    "_without_pod_field",
    "reported_name",
}
"""Names that only branches for profiles of releases use."""

_COMPARED: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {ast.Eq: operator.eq, ast.NotEq: operator.ne}
_MISSING = object()


def is_left_out(node: ast.AST) -> bool:
    """Whether this node is left out, with all that is in it."""
    match node:
        case ast.AnnAssign(value=None) | ast.Assert() | ast.Raise() | ast.JoinedStr() | ast.Import() | ast.ImportFrom():
            return True
        case ast.Expr(value=ast.Constant()) | ast.arguments() | ast.Subscript(slice=ast.Constant(value=str())):
            return True
        case ast.Expr(value=ast.Call() as call):
            return _is_silent(call)
        case ast.Assign(targets=[target]) | ast.AugAssign(target=target):
            return bool(_names(target) & _UNSEEN)
        case ast.keyword(arg=str(name)):
            return name in _SPEED_ARGUMENTS
        case ast.Compare(left=left, comparators=[right]):
            return bool((_name(left) | _name(right)) & _FOR_LOGS)
        case ast.BinOp():
            return bool(_names(node) & _SPEED)
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            return name in ("__str__", "__repr__", *_SILENT, *_KILL, *_FOR_RELEASES) or name.startswith(_PREFIXES)
        case ast.UnaryOp(operand=operand):
            return bool(_name(operand) & _KILL)
        case ast.If(test=test, body=body, orelse=other):
            return bool(_name(test) & _KILL) or "ignore" in _names(test) or all(map(_only_logs, (*body, *other)))
    return False


_OF_DAMAGED_FILES = {
    *("manager/checkpoint.py _text", "manager/checkpoint.py _texts", "manager/allocation_checkpoint.py _allocation"),
    *("manager/allocation_checkpoint.py _resource", "manager/allocation_checkpoint.py _entries"),
}


def is_left_out_function(path: str, function: str) -> bool:
    """Whether the function with this qualified name is left out, because of what it is for."""
    return function in _ENDS or f"{path} {function}" in _OF_DAMAGED_FILES


_UNSEEN = _FOR_LOGS | _SPEED | _FOR_RELEASES | _KILL
_PREFIXES = ("_log_", "_observe_")


def children(node: ast.AST) -> Iterator[ast.AST]:
    """The parts of a node, without those that profile `kep` never runs."""
    match node:
        case ast.If(test=test, body=body, orelse=other):
            yield test
            yield from _taken(test, body, other)
        case ast.IfExp(test=test, body=one, orelse=another):
            yield test
            yield from _taken(test, [one], [another])
        case ast.BoolOp(op=op, values=values):
            for value in values:
                yield value
                if (known := _known(value)) is not _MISSING and bool(known) is isinstance(op, ast.Or):
                    return
        case ast.Call(func=ast.Attribute(attr="sleep"), args=[ast.Constant()]):
            return
        case ast.AnnAssign(annotation=annotation):
            yield from (child for child in ast.iter_child_nodes(node) if child is not annotation)
        case _:
            yield from ast.iter_child_nodes(node)


def _taken(test: ast.expr, body: list[Any], other: list[Any]) -> list[Any]:
    known = _known(test)
    return [*body, *other] if known is _MISSING else body if known else other


def _known(test: ast.expr) -> Any:
    """The value of an expression in profile `kep`, if that alone decides it."""
    match test:
        case ast.Attribute(value=ast.Attribute(attr="profile" | "_profile") | ast.Name(id="profile"), attr=name):
            return getattr(KEP, name, _MISSING)
        case ast.Attribute(value=ast.Attribute(attr="rules") | ast.Name(id="rules"), attr=name):
            return getattr(KEP_RULES, name, _MISSING)
        case ast.Compare(left=left, ops=[op], comparators=[ast.Constant(value=value)]) if type(op) in _COMPARED:
            known = _known(left)
            return _MISSING if known is _MISSING else _COMPARED[type(op)](known, value)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            known = _known(operand)
            return _MISSING if known is _MISSING else not known
        case ast.BoolOp(op=op, values=values):
            every = [_known(value) for value in values]
            deciding = isinstance(op, ast.Or)
            if any(each is not _MISSING and bool(each) is deciding for each in every):
                return deciding
            return _MISSING if _MISSING in every else not deciding
    return _MISSING


def _only_logs(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call) and _is_silent(statement.value)


def _name(node: ast.AST) -> set[str]:
    return {node.attr} if isinstance(node, ast.Attribute) else {node.id} if isinstance(node, ast.Name) else set()


def _names(node: ast.AST) -> set[str]:
    """All names in a node."""
    return set().union(*map(_name, ast.walk(node)))


def _is_silent(call: ast.Call) -> bool:
    """Whether it calls something that only logs or observes, or fills a list of errors."""
    name: ast.expr = call.func
    while isinstance(name, ast.Attribute):
        if name.attr in (*_SILENT, *_FOR_LOGS) or name.attr.startswith(_PREFIXES):
            return True
        name = name.value
    return isinstance(name, ast.Name) and (name.id in (*_SILENT, *_FOR_LOGS) or name.id.startswith(_PREFIXES))
