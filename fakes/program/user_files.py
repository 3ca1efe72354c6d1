"""Files that users write, in YAML 1.2: all errors of a file are reported at once."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, TypeAdapter, ValidationError

from drahealth.fakes.program.errors import plain

# Counts the entries of a large YAML file before it is read.
#
# libyaml counts the entries of a file many times faster than ruamel.yaml reads them.

MAX_ENTRIES = 100_000
"""Entries of a document."""
_LARGE = 2 * MAX_ENTRIES
"""Characters; a smaller file cannot have more entries."""


def excess(text: str | bytes) -> int | None:
    """The line of the first entry that is too many in its document; None if there is none.

    Also None for invalid YAML, because its reader reports that better.
    """
    if len(text) < _LARGE:
        return None
    import yaml  # slow import, needed only for large files

    count = 0
    try:
        for line in _entries(text):
            count = count + 1 if line else 0
            if count > MAX_ENTRIES:
                return line
    except yaml.YAMLError:
        return None
    return None


def _entries(text: str | bytes) -> Iterator[int]:
    """The line of each key and of each element of a list, from 1; 0 at the start of a document."""
    import yaml

    loader = getattr(yaml, "CLoader", yaml.Loader)
    within: list[bool | None] = []  # in a mapping: whether a key comes next; in a list: None
    for event in yaml.parse(text, Loader=loader):
        if isinstance(event, yaml.DocumentStartEvent):
            yield 0
        elif isinstance(event, yaml.NodeEvent):
            if within and within[-1] is not False:
                yield event.start_mark.line + 1
            if within and within[-1] is not None:
                within[-1] = not within[-1]
            if isinstance(event, yaml.CollectionStartEvent):
                within.append(True if isinstance(event, yaml.MappingStartEvent) else None)
        elif isinstance(event, yaml.CollectionEndEvent):
            within.pop()


# Files that users write, in YAML 1.2: all errors of a file are reported at once, with lines and hints.

MAX_BYTES, MAX_DEPTH = 10_000_000, 60
"""Bytes of a file; levels of a document."""

Place = tuple[str | int, ...]
"""The path of a value in a document: keys and indices."""

Finding = tuple[Place, str]
"""An error in a document: path and message."""

Model = TypeVar("Model", bound=BaseModel)

_KEYS = ("missing", "extra_forbidden")
"""The errors of pydantic about keys. All others are about values."""


NO_LINE = 0
"""The line of an error in a file whose format has no lines here."""


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """One error. `line` starts at 1, or is `NO_LINE`."""

    line: int
    where: str
    """Path, such as `timeline.0.at`."""
    what: str

    def __str__(self) -> str:
        line = f"line {self.line}" if self.line != NO_LINE else ""
        return ": ".join(filter(None, (line, self.where, self.what)))


class FileError(ValueError):
    """An invalid file: all its errors, in the order of their lines."""

    def __init__(self, source: str, problems: Sequence[Problem]) -> None:
        self.source = source
        self.problems = tuple(sorted(set(problems)))
        super().__init__("\n".join(f"{source}: {problem}" for problem in self.problems))


@dataclass(frozen=True, slots=True)
class Document:
    """A YAML document as plain data, and the lines of its parts."""

    data: Any
    source: str
    lines: Mapping[Place, int]

    def line(self, place: Place) -> int:
        """The line of the nearest surrounding part that has one."""
        while place and place not in self.lines:
            place = place[:-1]
        return self.lines.get(place, min(self.lines.values(), default=1))

    def problems(self, findings: Iterable[Finding]) -> list[Problem]:
        """The errors of the document, by line."""
        return [Problem(self.line(at), ".".join(map(str, at)), what) for at, what in findings]

    def error(self, findings: Iterable[Finding]) -> FileError:
        """The errors of the document, as an exception."""
        return FileError(self.source, self.problems(findings))


def read(path: Path) -> bytes:
    """The content of a file. Raises FileError for a file that is too large, OSError if it cannot be read."""
    if path.stat().st_size > MAX_BYTES:
        raise FileError(str(path), [Problem(1, "", f"a file must have at most {MAX_BYTES} bytes")])
    return path.read_bytes()


def documents(text: str | bytes, source: str) -> Iterator[Document]:
    """The documents of a text, without empty ones. Raises FileError."""
    from ruamel.yaml import YAML  # slow import, needed only to read files
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    if line := excess(text):
        raise FileError(source, [Problem(line, "", f"the document has more than {MAX_ENTRIES} entries")])
    yaml = YAML(typ="rt", pure=True)
    yaml.composer.warn_double_anchors = False  # YAML allows it
    try:
        for document in yaml.load_all(text):
            if document is not None:
                reading = _Reading(source)
                yield Document(reading.plain(document, ()), source, reading.lines)
    except FileError:
        raise
    except MarkedYAMLError as error:
        mark = error.problem_mark
        problem = " ".join(str(error.problem).split())
        raise FileError(source, [Problem(mark.line + 1 if mark else 1, "", f"invalid YAML: {problem}")]) from None
    except (YAMLError, ValueError, RecursionError, AttributeError, TypeError, LookupError) as error:
        first = (str(error).splitlines() or [type(error).__name__])[0]
        raise FileError(source, [Problem(1, "", f"invalid YAML: {first}")]) from None


def validated(model: type[Model], document: Document, context: Any = None) -> Model:
    """The document as a model. `context` is for its validators. Raises FileError with all errors."""
    try:
        return model.model_validate(document.data, context=context)
    except ValidationError as error:
        raise FileError(document.source, _problems(_causes(error.errors()), document, model)) from None


def ill_formed(model: type[BaseModel], data: Any) -> set[Place]:
    """The paths at which data does not match the model."""
    try:
        model.model_validate(data)
    except ValidationError as error:
        return {cause["loc"] for cause in _causes(error.errors())}
    return set()


def closest_name(model: type[BaseModel], place: Place) -> str:
    """The most similar valid name at this path of the model; empty if none is similar."""
    close = get_close_matches(str(place[-1]), sorted(_names_in(model, place[:-1])), 1)
    return close[0] if close else ""


def valid_fields(model: type[BaseModel], data: Any, names: Iterable[str], context: Any = None) -> dict[str, Any]:
    """The well-formed fields among these, whatever the others are."""
    given = data if isinstance(data, dict) else {}
    found = dict[str, Any]()
    for name in names:
        if name in given:
            with suppress(ValidationError):
                found[name] = _reader(model, name).validate_python(given[name], context=context)
    return found


@cache
def _reader(model: type[BaseModel], name: str) -> TypeAdapter[Any]:
    field = next(field for key, field in model.model_fields.items() if name in (key, field.alias))
    annotated: Any = Annotated[field.annotation, *field.metadata] if field.metadata else field.annotation
    return TypeAdapter(annotated)


class _Reading:
    """Reads a document as plain data, with the line of each key and element."""

    def __init__(self, source: str) -> None:
        self.lines: dict[Place, int] = {}
        self._source = source

    def plain(self, node: Any, path: Place) -> Any:
        from ruamel.yaml.comments import CommentedMap, CommentedSeq

        if len(path) > MAX_DEPTH or len(self.lines) > MAX_ENTRIES:  # a recursive alias, or aliases of aliases
            what = f"more than {MAX_DEPTH} levels" if len(path) > MAX_DEPTH else f"more than {MAX_ENTRIES} entries"
            raise FileError(self._source, [Problem(self.lines[path], "", f"the document has {what}")])
        if isinstance(node, CommentedMap):
            return {str(key): self._part(node, node.lc.key, key, (*path, str(key))) for key in node}
        if isinstance(node, CommentedSeq):
            return [self._part(node, node.lc.item, number, (*path, number)) for number in range(len(node))]
        if isinstance(node, bool) or node is None:
            return node
        return next((kind(node) for kind in (str, int, float) if isinstance(node, kind)), str(node))

    def _part(self, node: Any, line_of: Callable[[Any], tuple[int, int]], key: Any, path: Place) -> Any:
        try:
            self.lines[path] = line_of(key)[0] + 1
        except (KeyError, AttributeError, TypeError):  # a merged key has no line of its own
            self.lines[path] = self.lines.get(path[:-1], 1)
        return self.plain(node[key], path)


def _causes(errors: Sequence[Any]) -> list[Any]:
    """The errors without those that only repeat an inner error."""
    places = [tuple(error["loc"]) for error in errors]
    return [
        error
        for error, place in zip(errors, places, strict=True)
        if error["type"] != "too_short" or not any(other[: len(place)] == place and other != place for other in places)
    ]


def _problems(errors: Sequence[Any], document: Document, model: type[BaseModel]) -> list[Problem]:
    """One error for each value, even if it can have several types: pydantic has one for each type."""
    found: dict[Place, list[Any]] = {}
    for error in errors:
        found.setdefault(_where(error, document), []).append(error)
    outer = {where[:length] for where in found for length in range(len(where))}
    problems = []
    for where, here in found.items():
        types = [one for one in here if _is_type_error(one)]
        others = [one for one in here if not _is_type_error(one)]
        has_a_possible_type = where in outer or any(one["type"] not in _KEYS for one in others)
        said = [_type_sentence(types)] if types and not has_a_possible_type else []
        said += [_sentence(one, model) for one in others]
        problems += [Problem(document.line(where), ".".join(map(str, where)), one) for one in said]
    return problems


def _where(error: Any, document: Document) -> Place:
    """The path of the value, or of the missing or unknown key."""
    # The paths of pydantic contain names of union members, which are not in the file.
    place: Place = ()
    for part in error["loc"]:
        if (*place, part) in document.lines:
            place = (*place, part)
    last = error["loc"][-1] if error["loc"] else ""
    if error["type"] in _KEYS and (not place or place[-1] != last):
        return (*place, last)
    return place


def _is_type_error(error: Any) -> bool:
    kind: str = error["type"]
    return kind.endswith(("_type", "_parsing")) or kind in ("literal_error", "enum")


def _type_sentence(errors: Sequence[Any]) -> str:
    types = dict.fromkeys(plain(str(error["msg"])).removeprefix("must be ") for error in errors)
    return f"must be {', or '.join(types)}, got {_short(errors[0].get('input'))}"


def _sentence(error: Any, model: type[BaseModel]) -> str:
    kind, last = error["type"], str(error["loc"][-1]) if error["loc"] else ""
    if kind == "extra_forbidden":
        if last in _names(model):
            return "this key is not allowed here"
        near = closest_name(model, error["loc"])
        return f"unknown key{f'; did you mean `{near}`?' if near else ''}"
    if kind == "missing":
        return "this key is required"
    message = plain(str(error["msg"]))
    return message if kind == "value_error" else f"{message}, got {_short(error.get('input'))}"


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _names(model: type[BaseModel]) -> frozenset[str]:
    """All names in files of this model."""
    schema = _schema(model)
    return frozenset(name for part in (schema, *schema["$defs"].values()) for name in part.get("properties", {}))


def _names_in(model: type[BaseModel], place: Place) -> frozenset[str]:
    """The valid names at a path; if several models are possible, those of all."""
    known = _schema(model)["$defs"]
    there = [*_objects(_schema(model), known)]
    for part in place:  # indices and names of union members have no schema
        if inner := [found["properties"][part] for found in there if part in found["properties"]]:
            there = [found for node in inner for found in _objects(node, known)]
    return frozenset(name for found in there for name in found["properties"])


def _objects(node: dict[str, Any], known: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The schemas of the possible objects, or of the elements of a list."""
    if reference := node.get("$ref"):
        yield from _objects(known[reference.rpartition("/")[2]], known)
    if "properties" in node:
        yield node
    listed = [node["items"]] if "items" in node else []
    for inner in (*node.get("anyOf", ()), *node.get("oneOf", ()), *listed):
        yield from _objects(inner, known)


@cache
def _schema(model: type[BaseModel]) -> dict[str, Any]:
    schema = model.model_json_schema()
    return {**schema, "$defs": schema.get("$defs", {})}
