"""The modules that are changed, and the import of a changed one in place of its file."""

import ast
import sys
from collections.abc import Iterable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import find_spec
from pathlib import Path
from types import CodeType, ModuleType

ROOT = Path(__file__).resolve().parents[2]
"""The checkout."""

LEFT_OUT = {
    "manager/__init__.py": "It only exports names.",
    "manager/profile.py": "It is the table of profiles. Each value is data from a text or a release.",
    "manager/connection.py": "It polls the gRPC connection of a plugin. In a real kubelet, the gRPC library "
    "watches the connection.",
    "fakes/cluster/pod_worker/__init__.py": "It has no code.",
    "fakes/cluster/pod_worker/slice_removal.py": "It removes the ResourceSlices of an absent driver. Other KEPs "
    "require this removal.",
    "fakes/cluster/pod_worker/event_series.py": "It counts equal Events, and combines similar Events. No text of "
    "KEP-4680 says how to do this.",
    "fakes/cluster/pod_worker/backoff.py": "It computes the pauses between attempts. No text of KEP-4680 defines the "
    "length of the pauses.",
}
"""The modules that are never changed, each with its reason."""


def changed_modules() -> list[str]:
    """The modules that are changed, relative to the checkout: what the reference and its surroundings decide with."""
    folders = ("manager", "fakes/cluster/pod_worker")
    found = [str(path.relative_to(ROOT)) for folder in folders for path in sorted((ROOT / folder).glob("*.py"))]
    rules = [f"fakes/cluster/api_server/{name}.py" for name in ("gates", "pod_validation")]
    return [path for path in (*found, *rules) if path not in LEFT_OUT]


def module_name(path: str) -> str:
    """The name to import a module by."""
    return "drahealth." + path.removesuffix(".py").replace("/", ".")


def runs_at_import(source: str, lines: Iterable[int]) -> bool:
    """Whether one of these lines is outside of functions, so that it runs when the module is imported."""
    inside: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            inside.update(range(node.body[0].lineno, (node.end_lineno or node.lineno) + 1))
    blank = {number for number, line in enumerate(source.splitlines(), start=1) if not line.strip()}
    return not set(lines) <= inside | blank


def install(path: str, source: str) -> None:
    """Makes the next import of the module run this text. The file stays as it is.

    Raises SyntaxError, and RuntimeError if it is too late.
    """
    name = module_name(path)
    if name in sys.modules:
        raise RuntimeError(f"{name} is imported already")
    sys.meta_path.insert(0, _Finder(name, compile(source, str(ROOT / path), "exec")))


class _Loader(SourceFileLoader):
    def __init__(self, name: str, path: str, code: CodeType) -> None:
        super().__init__(name, path)
        self._code = code

    def get_code(self, fullname: str) -> CodeType:
        return self._code


class _Finder(MetaPathFinder):
    def __init__(self, name: str, code: CodeType) -> None:
        self._name = name
        self._code = code

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != self._name:
            return None
        sys.meta_path.remove(self)
        spec = find_spec(fullname)
        sys.meta_path.insert(0, self)
        assert spec
        assert spec.origin
        spec.loader = _Loader(fullname, spec.origin, self._code)
        return spec
