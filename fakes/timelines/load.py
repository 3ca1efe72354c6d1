"""Reads timelines from YAML 1.2, and the JSON Schemas of timelines and inventories."""

import ast
import inspect
from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from pydantic import BaseModel

from drahealth.fakes.inventory.file import DeviceGroup, DriverPart, InventoryFile, PartitionGroup, PluginPart
from drahealth.fakes.program.user_files import (
    Document,
    FileError,
    Place,
    Problem,
    closest_name,
    documents,
    ill_formed,
    validated,
)
from drahealth.fakes.timelines.model import FORMAT, VERBS, Step, Timeline, Uses

# The JSON Schemas of timelines and inventories, for editors: what a file may say, as far as a schema can tell.

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def timeline_schema() -> dict[str, Any]:
    """Of a `*.timeline.yaml`; verbs come with what they mean."""
    schema = _schema(Timeline)
    step = schema["$defs"]["Step"]
    for verb, meaning in VERBS.items():
        step["properties"][verb]["description"] = meaning
    return schema


def inventory_schema() -> dict[str, Any]:
    """Of an inventory."""
    return _schema(InventoryFile)


def _schema(model: type[BaseModel]) -> dict[str, Any]:
    schema = {"$schema": DIALECT, **model.model_json_schema(by_alias=True)}
    parts: dict[str, Any] = {model.__name__: schema, **schema["$defs"]}
    for part in (InventoryFile, DriverPart, PluginPart, DeviceGroup, PartitionGroup):
        properties = parts.get(part.__name__, {}).get("properties", {})
        for name, meaning in _meanings(part):
            properties.get(name, {})["description"] = meaning
    return schema


def _meanings(model: type[BaseModel]) -> Iterator[tuple[str, str]]:
    """The fields of a model with the texts below them. Only a schema needs them, so that models are imported fast."""
    for cls in (one for one in model.__mro__[::-1] if issubclass(one, BaseModel) and one is not BaseModel):
        (definition,) = ast.parse(inspect.getsource(cls)).body
        assert isinstance(definition, ast.ClassDef)
        for field, text in pairwise(definition.body):
            match field, text:
                case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(meaning))):
                    yield name, " ".join(meaning.split())


# Reads timelines from YAML 1.2, and reports all errors at once, by line.

_STEPS = ("timeline", "always")
_ILL_FORMED: dict[str, Any] = {"mark": "ill-formed"}
_NEEDED: dict[str, Any] = {"format": FORMAT, "name": "ill-formed", "timeline": [_ILL_FORMED]}
_USES = frozenset(Uses.model_fields)
_BESIDE = frozenset(field.alias or name for name, field in Step.model_fields.items()) - VERBS.keys()
"""The keys of a step besides its verb."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """A timeline, and the document that it is from."""

    timeline: Timeline
    document: Document
    problems: tuple[Problem, ...] = ()
    """What is ill-formed of it: the timeline is then what is left, with a mark in the place of each ill-formed step."""
    unsure: frozenset[str] = frozenset()
    """What of `use` is ill-formed, so that nobody knows which was closest_name."""


def load(text: str | bytes, source: str = "timeline") -> list[Loaded]:
    """The timelines of a text, one a YAML document. Raises FileError."""
    found, problems = load_parts(text, source)
    if problems := [*problems, *(problem for part in found for problem in part.problems)]:
        raise FileError(source, problems)
    return found


def load_parts(text: str | bytes, source: str = "timeline") -> tuple[list[Loaded], list[Problem]]:
    """The readable timelines of a text, and the errors in the rest."""
    found, problems, some = list[Loaded](), list[Problem](), False
    try:
        for document in documents(text, source):
            some = True
            if isinstance(document.data, dict):
                found.append(_loaded(document))
            else:
                problems += document.problems([((), f"not a timeline; start it with `format: {FORMAT}`")])
    except FileError as error:  # no YAML from there on
        problems += error.problems
    if not some and not problems:
        problems.append(Problem(1, "", f"the file is empty; start it with `format: {FORMAT}`"))
    return found, problems


def _loaded(document: Document) -> Loaded:
    try:
        return Loaded(validated(Timeline, document), document)
    except FileError as error:
        data = deepcopy(document.data)
        shortened = _without_ill_formed_keys(data)
        more = [problem for problem in _problems(document, data) if problem.where in shortened]
        unsure = _remove_ill_formed(data)
        return Loaded(Timeline.model_validate(data), document, (*error.problems, *more), frozenset(unsure))


def _without_ill_formed_keys(data: dict[str, Any]) -> set[str]:
    """Removes ill-formed and unknown keys of steps besides their verbs, so that the other keys can be checked.

    Returns the paths of the steps that lost only known keys.
    """
    known, others = set[str](), set[str]()
    for place in sorted(ill_formed(Timeline, data), key=len, reverse=True):
        step = _innermost_step(place)
        if not step or len(place) == len(step) or (key := str(place[len(step)])) in VERBS:
            continue
        found = _at(data, step)
        found.pop(key, None)
        if "device" in (key, closest_name(Timeline, (*step, key))):
            found.setdefault("device", "all")
        (known if key in _BESIDE else others).add(".".join(map(str, step)))
    return known - others


def _problems(document: Document, data: dict[str, Any]) -> Sequence[Problem]:
    """The errors of data, with the lines of the document."""
    try:
        validated(Timeline, replace(document, data=data))
    except FileError as error:
        return error.problems
    return ()


def _remove_ill_formed(data: dict[str, Any]) -> set[str]:
    """Makes an ill-formed timeline well-formed. Returns what of its `use` nobody knows."""
    unsure = set[str]()
    for place in sorted(ill_formed(Timeline, data), key=len, reverse=True):  # what is inside comes before what it is in
        key = place[0]
        if step := _innermost_step(place):
            _put(data, step, _ILL_FORMED)
        elif key in _NEEDED:
            data[key] = _NEEDED[key]
        elif key == "use" and len(place) > 1:
            data["use"].pop(place[1], None)
            unsure |= {closest_name(Uses, place[1:2])} & _USES - data["use"].keys()
        else:
            data.pop(str(key), None)
            unsure |= _USES if closest_name(Timeline, place[:1]) == "use" and "use" not in data else set()
    return unsure


def _innermost_step(place: Place) -> Place:
    """The step that holds this; nothing where none does."""
    if len(place) < 2 or place[0] not in _STEPS:
        return ()
    end = 2
    while True:
        match place[end : end + 3]:
            case ("repeat", "do", int()) | ("parallel", int(), int()):
                end += 3
            case _:
                return place[:end]


def _put(data: Any, place: Place, what: Any) -> None:
    _at(data, place[:-1])[place[-1]] = what


def _at(data: Any, place: Place) -> Any:
    for part in place:
        data = data[part]
    return data
