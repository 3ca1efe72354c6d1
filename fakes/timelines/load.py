"""Reads timelines from YAML 1.2, and says all that is wrong with them at once, by line."""

from dataclasses import dataclass
from pathlib import Path

from drahealth.fakes.timelines.model import FORMAT, Timeline
from drahealth.fakes.user_files import Document, FileError, Problem, documents, read, validated


@dataclass(frozen=True, slots=True)
class Loaded:
    """A timeline, and the document that it is from."""

    timeline: Timeline
    document: Document


def load_file(path: Path) -> list[Loaded]:
    """The timelines of a file. Raises FileError for what is none, OSError for what cannot be read."""
    return load(read(path), str(path))


def load(text: str | bytes, source: str = "timeline") -> list[Loaded]:
    """The timelines of a text, one a YAML document. Raises FileError."""
    problems: list[Problem] = []
    found: list[Loaded] = []
    for document in documents(text, source):
        try:
            found.append(_timeline(document))
        except FileError as error:
            problems += error.problems
    if not found and not problems:
        problems.append(Problem(1, "", f"there is no timeline in it: it begins with `format: {FORMAT}`"))
    if problems:
        raise FileError(source, problems)
    return found


def _timeline(document: Document) -> Loaded:
    if not isinstance(document.data, dict):
        raise document.error([((), f"not a timeline: it begins with `format: {FORMAT}`")])
    return Loaded(validated(Timeline, document), document)
