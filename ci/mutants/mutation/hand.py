"""Changes of the reference that were written by hand, and the import of a changed module."""

import ast
import hashlib
import sys
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import find_spec
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

# The modules that are changed, and the import of a changed one in place of its file.

ROOT = Path(__file__).resolve().parents[3]
"""The checkout."""

LEFT_OUT = {
    "manager/__init__.py": "It only exports names.",
    "manager/profile.py": "It is the table of profiles. Each value is data from a text or a release.",
    "manager/connection.py": "It polls the gRPC connection of a plugin. In a real kubelet, the gRPC library "
    "watches the connection.",
    "manager/pod_worker/__init__.py": "It has no code.",
    "manager/pod_worker/slice_removal.py": "It removes the ResourceSlices of an absent driver. Other KEPs "
    "require this removal.",
    "manager/pod_worker/event_series.py": "It counts equal Events, and combines similar Events. No text of "
    "KEP-4680 says how to do this.",
}
"""The modules that are never changed, each with its reason."""


def changed_modules() -> list[str]:
    """The modules that are changed, relative to the checkout: what the reference and its surroundings decide with."""
    folders = ("manager", "manager/pod_worker")
    found = [str(path.relative_to(ROOT)) for folder in folders for path in sorted((ROOT / folder).glob("*.py"))]
    return [path for path in (*found, "fakes/cluster/api_server/pod_statuses.py") if path not in LEFT_OUT]


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


# Changes of the reference that were written by hand: small, plausible errors of somebody who implements a kubelet.
#
# Each is data: a file in `ci/mutants/hand` has those of one part of a kubelet's work. Pure, except for `read_hand`.

_KEYS = {"name", "does", "file", "old", "new"}


class HandMutantError(ValueError):
    """An invalid file of changes; the message names the file and the change."""


class DoesNotApplyError(ValueError):
    """The text to replace does not occur exactly once in its module."""


@dataclass(frozen=True, slots=True)
class HandMutant:
    """One wrong kubelet: a text of one module that another one replaces."""

    name: str
    """Names it, in words with hyphens."""
    part: str
    """The part of a kubelet's work that it gets wrong."""
    does: str
    """The wrong behaviour, in one sentence."""
    path: str
    """The module, relative to the checkout."""
    old: str
    new: str

    @property
    def key(self) -> str:
        """What names it among all changes."""
        return f"hand {self.name}"

    @property
    def trial_key(self) -> str:
        """What names its result: another text is another change."""
        text = "\0".join((self.path, self.old, self.new))
        return f"{self.key} {hashlib.sha256(text.encode()).hexdigest()[:8]}"

    def changed(self, source: str) -> str:
        """The module with the change. Raises DoesNotApplyError."""
        if (number := source.count(self.old)) != 1:
            raise DoesNotApplyError(f"its old text must occur once in {self.path}, but occurs {number} times")
        return source.replace(self.old, self.new)

    def lines(self, source: str) -> range:
        """The lines of the module that it changes; empty if it does not apply."""
        if source.count(self.old) != 1:
            return range(0)
        before = source[: source.index(self.old)].count("\n") + 1
        same = _same_lines(self.old, self.new)
        return range(before + same, before + self.old.count("\n") + 1)

    def __str__(self) -> str:
        return f"{self.name} ({self.part}): {self.does}"


def _same_lines(old: str, new: str) -> int:
    """The number of whole lines at the start that a change leaves as they are; at least one line counts as changed.

    Before new lines, the last old line counts as changed: the next one can be an `else` or a `def`, which no scenario
    runs.
    """
    pairs = zip(old.split("\n")[:-1], new.split("\n"), strict=False)
    differs = next((number for number, (one, other) in enumerate(pairs) if one != other), None)
    if differs is not None:
        return differs
    return old.count("\n") - old.endswith("\n")


def read_hand(folder: Path) -> list[HandMutant]:
    """The changes of all files in the folder. Raises HandMutantError, OSError."""
    found = [one for file in sorted(folder.glob("*.toml")) for one in parse_hand(file.read_text(), file.name)]
    if twice := [name for name, number in Counter(one.name for one in found).items() if number > 1]:
        raise HandMutantError(f"two changes have the name {twice[0]}")
    return found


def parse_hand(text: str, file: str) -> list[HandMutant]:
    """The changes of one file. Raises HandMutantError."""
    return list(_mutants(file, *part_and_entries(text, file, "mutant")))


def part_and_entries(text: str, file: str, name: str) -> tuple[str, list[dict[str, Any]]]:
    """The part of a kubelet's work in one file, and the entries of its list with this name. Raises HandMutantError."""
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise HandMutantError(f"{file}: invalid TOML: {error}") from None
    part = data.get("part")
    if not isinstance(part, str) or set(data) != {"part", name}:
        raise HandMutantError(f"{file}: must have the text `part` and the list `{name}`")
    return part, data[name]


def _mutants(file: str, part: str, entries: Iterable[dict[str, Any]]) -> Iterator[HandMutant]:
    for number, entry in enumerate(entries, start=1):
        if set(entry) != _KEYS or not all(isinstance(value, str) for value in entry.values()):
            raise HandMutantError(f"{file}: mutant {number} must have the texts {', '.join(sorted(_KEYS))}")
        if not all(entry[key] for key in _KEYS - {"new"}):
            raise HandMutantError(f"{file}: mutant {number} has an empty text")
        yield HandMutant(entry["name"], part, entry["does"], entry["file"], entry["old"], entry["new"])
