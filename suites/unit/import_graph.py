"""The modules of a checkout's parts and the imports between them. Tests (`test_layers`) and `ci/structure` read it."""

import ast
import gc
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

PARTS = ("proto", "manager", "fakes", "suites")
WITH_FOLDERS = {"fakes", "suites"}

Edges = Mapping[str, frozenset[str]]
"""For each node the nodes that it imports."""


def imports(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """The dotted names that these nodes import; a relative import begins with a dot."""
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{'.' * node.level}{node.module or ''}.{alias.name}" for alias in node.names)


def parsed(source: bytes) -> ast.Module:
    """A module's syntax tree. The garbage collector is off meanwhile: CPython 3.11 mistakes a parse that a finalizer
    starts for an error of this one (SystemError)."""
    gc.disable()
    try:
        return ast.parse(source)
    finally:
        gc.enable()


@cache
def imported(source: bytes) -> tuple[str, ...]:
    """The dotted names that a module imports, wherever in it."""
    return tuple(imports(_statements(parsed(source).body)))


def _statements(nodes: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """The statements and those in them: expressions, most of a module, have no imports."""
    for node in nodes:
        yield node
        for block in ("body", "orelse", "finalbody", "handlers", "cases"):
            yield from _statements(getattr(node, block, ()))


@dataclass(frozen=True)
class ImportGraph:
    """The modules of all parts, without the tests of the project, by their names below `drahealth`."""

    edges: Edges
    packages: frozenset[str]
    """The names that are folders."""
    re_exports: frozenset[tuple[str, str]] = frozenset()
    """The imports below `if TYPE_CHECKING:` in the `__init__` of a part: its public names, no code that it needs."""

    @classmethod
    def of(cls, sources: Mapping[str, bytes]) -> "ImportGraph":
        """From the text of each module by its path, such as `fakes/clock.py`."""
        names = {_name(path): path for path in sources if not path.startswith("suites/unit/")}
        packages = frozenset(name for name, path in names.items() if path.endswith("/__init__.py"))
        edges = {name: frozenset(_modules(imported(sources[path]), names) - {name}) for name, path in names.items()}
        re_exports = frozenset(
            (part, other)
            for part in PARTS
            if part in names
            for other in _modules(imports(_for_type_checkers(parsed(sources[names[part]]))), names)
        )
        return cls(edges, packages, re_exports)

    def folder(self, module: str) -> str:
        """The folder of fakes or suites that a module is in; the part itself for one at the root of these parts.

        proto and manager are one folder each: little is below them.
        """
        place = self.place(module)
        return place if place in self.packages else module.split(".")[0]

    def place(self, module: str) -> str:
        """The same, except that each module at the root of fakes or suites is a place of its own."""
        part, *below = module.split(".")
        return f"{part}.{below[0]}" if part in WITH_FOLDERS and below else part

    def between(self, place: Callable[[str], str]) -> set[tuple[str, str]]:
        """The pairs of different places of which the first imports the second, without re-exports."""
        imported = {(name, other) for name, others in self.edges.items() for other in others} - self.re_exports
        pairs = {(place(name), place(other)) for name, other in imported}
        return {(one, other) for one, other in pairs if one != other}

    def roots(self, part: str) -> list[str]:
        """The modules at the root of a part, its `__init__` among them."""
        below = [name for name in self.edges if name.startswith(f"{part}.") and name not in self.packages]
        return [part, *(name for name in below if name.count(".") == 1)]


def cycle(edges: Edges) -> list[str]:
    """The nodes of one cycle, in order; nothing where there is none."""
    try:
        TopologicalSorter(edges).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def sources(checkout: Path) -> dict[str, bytes]:
    """The text of each module in a checkout, by its path."""
    paths = (path for part in PARTS for path in sorted((checkout / part).rglob("*.py")))
    return {str(path.relative_to(checkout)): path.read_bytes() for path in paths}


def _for_type_checkers(module: ast.Module) -> Iterator[ast.stmt]:
    """The statements below `if TYPE_CHECKING:` of a module."""
    for node in module.body:
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            yield from node.body


def _name(path: str) -> str:
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def _modules(imported: Iterable[str], names: Mapping[str, str]) -> set[str]:
    """The modules that are meant: a name is a module itself or something in one."""
    ours = (name.removeprefix("drahealth.") for name in imported if name.startswith("drahealth."))
    return {name if name in names else name.rpartition(".")[0] for name in ours} & names.keys()
