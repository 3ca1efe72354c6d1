"""What each part exports, and the first sentence about each name; for the tests and for ci/generate-docs."""

import ast
import inspect
from collections.abc import Iterator, Sequence
from importlib import import_module
from itertools import pairwise
from pathlib import Path

from drahealth.proto.exports import modules_of

PARTS = ("drahealth.fakes", "drahealth.manager", "drahealth.proto", "drahealth.suites")


def public_names(part: str) -> Iterator[tuple[str, str]]:
    """The names that the part exports, each with its first sentence; that is empty where there is none."""
    for name in import_module(part).__all__:
        home = import_module(modules_of(part)[name])
        value = getattr(home, name)
        text = value.__doc__ if inspect.isclass(value) or inspect.isroutine(value) else after(name, home.__file__ or "")
        yield name, " ".join((text or "").split("\n\n")[0].split())


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
