"""The operators: each makes one small change of a module; and what they leave out."""

import ast
import copy
import operator
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from itertools import islice
from typing import Any

from drahealth.fakes.cluster.api_server.pod_statuses import KEP_RULES
from drahealth.manager.profile import KEP

# What the operators leave out by rule: no change of it changes what a kubelet of profile `kep` does. Pure.

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
    *("manager/checkpoint.py _text", "manager/checkpoint.py _texts", "manager/allocations.py _allocation"),
    *("manager/allocations.py _resource", "manager/allocations.py _entries"),
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


# The operators: each makes one small change of a module, as an implementer could get it wrong. Pure.
#
# `is_left_out` says what has no changes by rule.

_SWAPPED: dict[type[ast.AST], type[ast.AST]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.And: ast.Or,
    ast.Or: ast.And,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
}
_NAMES = {"min": "max", "max": "min", "any": "all", "all": "any"}

OPERATORS = {
    "comparison": "A comparison becomes its opposite, for example == becomes !=. Or it includes or excludes its limit: "
    "< becomes <=, and the other way round.",
    "connective": "`and` becomes `or`, and the other way round.",
    "condition": "The condition of an `if` or of a conditional expression is negated.",
    "negation": "`not x` becomes `x`.",
    "constant": "True becomes False, and the other way round. An integer becomes larger by 1. A number with a decimal "
    "point is multiplied by 10; 0.0 becomes 1.0.",
    "arithmetic": "+ becomes -, * becomes /, bitwise OR becomes bitwise AND, and the other way round.",
    "function": "`min` becomes `max`, `any` becomes `all`, and the other way round.",
    "statement": "A statement is left out: a call, or an assignment to an attribute or to an item.",
    "jump": "A `return` without a value, a `continue` or a `break` is left out.",
}
"""The operators by name, each with its sentence."""


@dataclass(frozen=True, slots=True)
class Mutation:
    """One change of one module."""

    path: str
    """The module, relative to the checkout."""
    index: int
    """Its number among the changes of this module."""
    function: str
    """The qualified name of the function or class around it; empty at the top of the module."""
    line: int
    operator: str
    before: str
    after: str
    number: int = 1
    """Tells equal changes of one function apart."""

    @property
    def key(self) -> str:
        """What names it also after changes elsewhere in the module."""
        number = "" if self.number == 1 else f" #{self.number}"
        return f"{self.path} {self.function}: {self.before} -> {self.after}{number}"

    @property
    def trial_key(self) -> str:
        """What names its result."""
        return self.key

    def changed(self, source: str) -> str:
        """The module with the change. Raises IndexError if it has no such change."""
        return ast.unparse(mutated(self.path, source, self.index))

    def lines(self, source: str) -> range:
        """The lines of the module that it changes: the first of them."""
        return range(self.line, self.line + 1)

    def __str__(self) -> str:
        return f"{self.path}:{self.line} {self.function} [{self.operator}] {self.before} -> {self.after}"


@dataclass(frozen=True, slots=True)
class _Change:
    operator: str
    node: ast.AST
    other: ast.AST
    """What the node becomes."""


def mutations(path: str, source: str) -> list[Mutation]:
    """All changes of a module."""
    found, numbers = [], Counter[tuple[str, str, str]]()
    for index, (function, change) in enumerate(_changes(path, ast.parse(source))):
        before, after = _text(change.node), _text(change.other)
        line = getattr(change.node, "lineno", 0)
        numbers[function, before, after] += 1
        number = numbers[function, before, after]
        found.append(Mutation(path, index, function, line, change.operator, before, after, number))
    return found


def mutated(path: str, source: str, index: int) -> ast.Module:
    """The module with one change. Raises IndexError if it has no such change."""
    tree = ast.parse(source)
    found = next(islice(_changes(path, tree), index, None), None)
    if found is None:
        raise IndexError(f"{path} has no change {index}")
    _Replacer(found[1]).visit(tree)
    return tree


def sample(every: Iterable[Mutation], number: int, seed: int) -> list[Mutation]:
    """This number of changes, drawn by their names, so that another change of the code keeps almost all of them."""
    return sorted(every, key=lambda one: sha256(f"{seed} {one.key}".encode()).digest())[:number]


class _Replacer(ast.NodeTransformer):
    """Visits only the nodes that have the line of the change, and those without a line of their own."""

    def __init__(self, change: _Change) -> None:
        self._change = change
        self._line: int = getattr(change.node, "lineno", 0)

    def visit(self, node: ast.AST) -> Any:
        if node is self._change.node:
            return ast.fix_missing_locations(ast.copy_location(self._change.other, node))
        if isinstance(node, ast.stmt | ast.expr) and not node.lineno <= self._line <= (node.end_lineno or node.lineno):
            return node
        return super().generic_visit(node)


def _text(node: ast.AST) -> str:
    return " ".join(ast.unparse(node).split())[:120]


def _changes(path: str, tree: ast.Module) -> Iterator[tuple[str, _Change]]:
    """All changes in the order of the source, each with the function around it."""
    for function, node in _mutable(path, tree, ""):
        for change in _of(node):
            yield function, change


def _mutable(path: str, node: ast.AST, function: str) -> Iterator[tuple[str, ast.AST]]:
    if is_left_out(node):
        return
    yield function, node
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        name = f"{function}.{node.name}".lstrip(".")
        if is_left_out_function(path, name):
            return
        for statement in node.body:
            yield from _mutable(path, statement, name)
        return
    for child in children(node):
        yield from _mutable(path, child, function)


def _of(node: ast.AST) -> Iterator[_Change]:
    match node:
        case ast.Compare(ops=[op]) if type(op) in _SWAPPED:
            yield _Change("comparison", node, _with(node, ops=[_SWAPPED[type(op)]()]))
        case ast.BoolOp(op=op):
            yield _Change("connective", node, _with(node, op=_SWAPPED[type(op)]()))
        case ast.BinOp(op=op) if type(op) in _SWAPPED and not _is_text(node):
            yield _Change("arithmetic", node, _with(node, op=_SWAPPED[type(op)]()))
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield _Change("negation", node, operand)
        case ast.Constant(value=bool() as value):
            yield _Change("constant", node, ast.Constant(not value))
        case ast.Constant(value=int() as value):
            yield _Change("constant", node, ast.Constant(value + 1))
        case ast.Constant(value=float() as value):
            yield _Change("constant", node, ast.Constant(value * 10 or 1.0))
        case ast.Name(id=name, ctx=ast.Load()) if name in _NAMES:
            yield _Change("function", node, _with(node, id=_NAMES[name]))
        case ast.If(test=test) | ast.IfExp(test=test) if not isinstance(test, ast.Compare | ast.UnaryOp):
            yield _Change("condition", test, ast.UnaryOp(ast.Not(), test))
        case ast.Expr(value=ast.Call() | ast.Await()) | ast.AugAssign():
            yield _Change("statement", node, ast.Pass())
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            yield _Change("statement", node, ast.Pass())
        case ast.Return(value=None) | ast.Continue() | ast.Break():
            yield _Change("jump", node, ast.Pass())


def _is_text(node: ast.BinOp) -> bool:
    return any(isinstance(side, ast.JoinedStr) or _is_string(side) for side in (node.left, node.right))


def _is_string(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _with(node: ast.AST, **fields: Any) -> ast.AST:
    """A copy of a node with other fields."""
    found = copy.copy(node)
    for name, value in fields.items():
        setattr(found, name, value)
    return found
