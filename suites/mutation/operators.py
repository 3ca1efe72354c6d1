"""The operators: each makes one small change of a module, as an implementer could get it wrong. Pure.

`left_out` says what has no changes by rule.
"""

import ast
import copy
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from itertools import islice
from typing import Any

from drahealth.suites.mutation.left_out import children, is_left_out, is_left_out_function

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
