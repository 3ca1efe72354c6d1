"""Reads timelines from YAML 1.2, and says all that is wrong with them at once, by line."""

from collections.abc import Callable, Iterable
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from drahealth.fakes.timelines.model import FORMAT, Timeline
from drahealth.fakes.user_files import Document, FileError, Place, Problem, documents, read, validated

Judge = Callable[[Timeline], Iterable[tuple[Place, str]]]
"""What is wrong with the names of a timeline, by place."""

_STEPS = ("timeline", "always")


def _no_judge(_: Timeline) -> Iterable[tuple[Place, str]]:
    return ()


@dataclass(frozen=True, slots=True)
class Loaded:
    """A timeline, and the document that it is from."""

    timeline: Timeline
    document: Document


def load_file(path: Path, judge: Judge = _no_judge) -> list[Loaded]:
    """The timelines of a file. Raises FileError for what is none, OSError for what cannot be read.

    Where anything is wrong, it is also asked what `judge` finds wrong with the rest.
    """
    return load(read(path), str(path), judge)


def load(text: str | bytes, source: str = "timeline", judge: Judge = _no_judge) -> list[Loaded]:
    """The timelines of a text, one a YAML document. Raises FileError."""
    problems: list[Problem] = []
    found: list[Loaded] = []
    for document in documents(text, source):
        try:
            found.append(_timeline(document))
        except FileError as error:
            problems += error.problems
            if (rest := _rest(document)) is not None:
                problems += document.error([*judge(rest)]).problems
    if not found and not problems:
        problems.append(Problem(1, "", f"there is no timeline in it: it begins with `format: {FORMAT}`"))
    if problems:
        for whole in found:
            problems += whole.document.error([*judge(whole.timeline)]).problems
        raise FileError(source, problems)
    return found


def _timeline(document: Document) -> Loaded:
    if not isinstance(document.data, dict):
        raise document.error([((), f"not a timeline: it begins with `format: {FORMAT}`")])
    return Loaded(validated(Timeline, document), document)


def _rest(document: Document) -> Timeline | None:
    """What is left of an ill-formed timeline without its ill-formed steps; None where more than steps is wrong."""
    if not isinstance(document.data, dict):
        return None
    data: dict[str, Any] = deepcopy(document.data)
    try:
        return Timeline.model_validate(data)
    except ValidationError as error:
        places = {problem["loc"][:2] for problem in error.errors()}
    for place in places:
        match place:
            case (str(key), int(number)) if key in _STEPS:
                data[key][number] = {"mark": "ill-formed"}  # in its place, so that the others keep theirs
            case (str(key), *_) if key not in Timeline.model_fields:
                del data[key]
            case _:
                return None
    try:
        return Timeline.model_validate(data)
    except ValidationError:
        return None
