"""What each part exports, and the first sentence about each name; for the tests and for ci/docs/generate."""

import ast
import inspect
import re
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from itertools import pairwise
from pathlib import Path

from drahealth.proto.package import modules_of

PARTS = ("drahealth.fakes", "drahealth.manager", "drahealth.proto", "drahealth.suites")


def public_names(part: str) -> Iterator[tuple[str, str]]:
    """The names that the part exports, each with its first sentence; that is empty where there is none."""
    for name in import_module(part).__all__:
        home = import_module(modules_of(part)[name])
        value = getattr(home, name)
        text = value.__doc__ if inspect.isclass(value) or inspect.isroutine(value) else after(name, home.__file__ or "")
        yield name, first_sentence(text or "")


def members(kind: type) -> Iterator[tuple[str, str]]:
    """The public methods and properties of a class, as they are written in code, each with its first sentence."""
    for name, member in vars(kind).items():
        if name.startswith("_"):
            continue
        if isinstance(member, property):
            yield f"{kind.__name__}.{name}", first_sentence(member.__doc__ or "")
        elif inspect.isfunction(member):
            arguments = ", ".join(parameters(member))
            waits = "await " if inspect.iscoroutinefunction(member) else ""
            yield f"{waits}{kind.__name__}.{name}({arguments})", first_sentence(member.__doc__ or "")


def parameters(function: Callable[..., object]) -> Iterator[str]:
    """The names of the arguments, those that have a default with it."""
    for parameter in list(inspect.signature(function).parameters.values())[1:]:
        yield parameter.name if parameter.default is parameter.empty else f"{parameter.name}={parameter.default!r}"


def first_sentence(text: str) -> str:
    """The first sentence of a docstring, in one line."""
    line = " ".join(text.split("\n\n")[0].split())
    return re.split(r"(?<=[.!?]) (?=[A-Z`])", line, maxsplit=1)[0]


def after(name: str, path: str) -> str:
    """The string below the assignment of a name in a module."""
    body = ast.parse(Path(path).read_text()).body
    for statement, following in pairwise(body):
        if name in targets(statement) and isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant):
            return str(following.value.value)
    return ""


def targets(statement: ast.stmt) -> Sequence[str]:
    """The plain names that a statement assigns to."""
    if not isinstance(statement, ast.Assign):
        return ()
    return [target.id for target in statement.targets if isinstance(target, ast.Name)]
