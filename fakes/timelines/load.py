"""Reads timelines from YAML 1.2, and says all that is wrong with them at once, by line."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from drahealth.fakes.timelines.model import FORMAT, Timeline

LARGEST, MOST, DEEPEST = 10_000_000, 100_000, 60
"""Bytes of a file; entries and levels of a document."""

Path_ = tuple[str | int, ...]
"""Where in a document something is: keys and numbers."""


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """One thing that is wrong. `line` begins at 1."""

    line: int
    where: str
    """Such as `timeline.0.at`."""
    what: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.where}: {self.what}" if self.where else f"line {self.line}: {self.what}"


class TimelineError(ValueError):
    """A file that is no timeline: all its problems, in the order of their lines."""

    def __init__(self, source: str, problems: Sequence[Problem]) -> None:
        self.source = source
        self.problems = tuple(sorted(set(problems)))
        super().__init__("\n".join(f"{source}: {problem}" for problem in self.problems))


@dataclass(frozen=True, slots=True)
class Loaded:
    """A timeline of a file, and the lines of its parts."""

    timeline: Timeline
    source: str
    lines: Mapping[Path_, int]

    def line(self, path: Path_) -> int:
        """The line of the nearest thing around it that has one."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, 1)


def load_file(path: Path) -> list[Loaded]:
    """The timelines of a file. Raises TimelineError for what is none, OSError for what cannot be read."""
    if path.stat().st_size > LARGEST:
        raise TimelineError(str(path), [Problem(1, "", f"the file has more than {LARGEST} bytes")])
    return load(path.read_bytes(), str(path))


def load(text: str | bytes, source: str = "timeline") -> list[Loaded]:
    """The timelines of a text, one a YAML document. Raises TimelineError."""
    problems: list[Problem] = []
    found: list[Loaded] = []
    for document in _documents(text, source):
        try:
            found.append(_timeline(document, source))
        except TimelineError as error:
            problems += error.problems
    if not found and not problems:
        problems.append(Problem(1, "", f"there is no timeline in it: it begins with `format: {FORMAT}`"))
    if problems:
        raise TimelineError(source, problems)
    return found


def _documents(text: str | bytes, source: str) -> Iterator[Any]:
    from ruamel.yaml import YAML  # heavy, and only who reads files needs it
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    try:
        for document in YAML(typ="rt", pure=True).load_all(text):
            if document is not None:
                yield document
    except MarkedYAMLError as error:
        mark = error.problem_mark
        raise TimelineError(source, [Problem(mark.line + 1 if mark else 1, "", f"no YAML: {error.problem}")]) from None
    except (YAMLError, ValueError, RecursionError, AttributeError, TypeError, KeyError) as error:
        first = (str(error).splitlines() or [type(error).__name__])[0]
        raise TimelineError(source, [Problem(1, "", f"no YAML: {first}")]) from None


def _timeline(document: Any, source: str) -> Loaded:
    reading = _Reading(source)
    plain = reading.plain(document, ())
    if not isinstance(plain, dict):
        raise TimelineError(source, [Problem(1, "", f"not a timeline: it begins with `format: {FORMAT}`")])
    lines = {(): min(reading.lines.values(), default=1), **reading.lines}
    try:
        return Loaded(Timeline.model_validate(plain), source, lines)
    except ValidationError as error:
        at = Loaded(Timeline.model_construct(), source, lines)
        raise TimelineError(source, [_problem(found, at) for found in _causes(error.errors())]) from None


class _Reading:
    """What a document holds as plain data, with the line of each key and each element."""

    def __init__(self, source: str) -> None:
        self.lines: dict[Path_, int] = {}
        self._source = source

    def plain(self, node: Any, path: Path_) -> Any:
        from ruamel.yaml.comments import CommentedMap, CommentedSeq

        if len(path) > DEEPEST or len(self.lines) > MOST:  # an alias within itself, or aliases of aliases
            what = f"more than {DEEPEST} levels" if len(path) > DEEPEST else f"more than {MOST} entries"
            raise TimelineError(self._source, [Problem(self.lines[path], "", f"the document has {what}")])
        if isinstance(node, CommentedMap):
            return {str(key): self._part(node, node.lc.key, key, (*path, str(key))) for key in node}
        if isinstance(node, CommentedSeq):
            return [self._part(node, node.lc.item, number, (*path, number)) for number in range(len(node))]
        if isinstance(node, bool) or node is None:
            return node
        return next((kind(node) for kind in (str, int, float) if isinstance(node, kind)), str(node))

    def _part(self, node: Any, line_of: Callable[[Any], tuple[int, int]], key: Any, path: Path_) -> Any:
        try:
            self.lines[path] = line_of(key)[0] + 1
        except (KeyError, AttributeError, TypeError):  # what came by a merge key has no place of its own
            self.lines[path] = self.lines.get(path[:-1], 1)
        return self.plain(node[key], path)


def _causes(errors: Sequence[Any]) -> list[Any]:
    """Without those that only say that something inside is wrong."""
    places = [tuple(error["loc"]) for error in errors]
    return [
        error
        for error, place in zip(errors, places, strict=True)
        if error["type"] != "too_short" or not any(other[: len(place)] == place and other != place for other in places)
    ]


def _problem(error: Any, at: Loaded) -> Problem:
    # Parts of a union are in pydantic's path by the names of its members, which are no places of the file.
    path: Path_ = ()
    for part in error["loc"]:
        if (*path, part) in at.lines:
            path = (*path, part)
    last = error["loc"][-1] if error["loc"] else ""
    where = path
    if error["type"] in ("missing", "extra_forbidden") and (not path or path[-1] != last):
        where = (*path, last)
    return Problem(at.line(path), ".".join(map(str, where)), _sentence(error))


def _sentence(error: Any) -> str:
    kind, last = error["type"], str(error["loc"][-1]) if error["loc"] else ""
    if kind == "extra_forbidden":
        if last in _every_name():
            return "it does not belong here"
        close = get_close_matches(last, _every_name(), 1)
        return f"nothing is called so here{f', did you mean {close[0]}?' if close else ''}"
    if kind == "missing":
        return "it is missing"
    message = str(error["msg"]).removeprefix("Value error, ")
    return message if kind == "value_error" else f"{message[:1].lower()}{message[1:]}, not {_short(error.get('input'))}"


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


@cache
def _every_name() -> tuple[str, ...]:
    names: set[str] = set()
    _collect(Timeline, names)
    return tuple(sorted(names))


def _collect(model: type[BaseModel], names: set[str]) -> None:
    schema = model.model_json_schema()
    for part in (schema, *schema.get("$defs", {}).values()):
        names.update(part.get("properties", {}))
