"""The words of this project: short sentences, no phrases that are hard to read, one word for each concept.

prose_phrases.toml lists phrases with a better wording, docs/glossary.md the terms.
"""

import re
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from typer.core import TyperGroup
from typer.main import get_command

from drahealth.suites.command import app
from drahealth.suites.unit import prose
from drahealth.suites.unit.prose import Sentence

ROOT = Path(__file__).parents[2]
LIMIT = 30  # words a sentence
CODE_PARTS = ("proto", "manager", "fakes", "suites")
# Tables of test names and of quotations
NO_PROSE = {"docs/reference/scenarios.md", "docs/reference/releases.md"}
PAGES = sorted(
    path.relative_to(ROOT).as_posix()
    for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("ci/**/README.md")]
    if path.relative_to(ROOT).as_posix() not in NO_PROSE
)
MODULES = sorted(
    path.relative_to(ROOT).as_posix()
    for part in CODE_PARTS
    for path in (ROOT / part).rglob("*.py")
    if "_pb2" not in path.name
)


@cache
def phrases() -> tuple[tuple[re.Pattern[str], str], ...]:
    """The hard phrases, and the words that the glossary replaces, each with a better wording."""
    listed = tomllib.loads((Path(__file__).parent / "prose_phrases.toml").read_text())["phrases"]
    return tuple((re.compile(rf"\b({hard})\b", re.I), better) for hard, better in (*listed.items(), *synonyms()))


def glossary() -> Iterator[tuple[list[str], str]]:
    """Each row's terms, and the text after them."""
    for line in (ROOT / "docs" / "glossary.md").read_text().splitlines():
        if line.startswith("| **"):
            terms, meaning = line.strip("| ").split(" | ", 1)
            yield re.findall(r"\*\*(.+?)\*\*", terms), meaning


def synonyms() -> Iterator[tuple[str, str]]:
    """The words after `not:` in the glossary, each with the term to use."""
    for terms, meaning in glossary():
        listed = re.search(r"not: (.+?)\.", meaning)
        for word in listed[1].split(", ") if listed else ():
            yield rf"{re.escape(word)}s?", terms[0]


def problems(sentences: Iterator[Sentence]) -> list[str]:
    """The problems of these sentences, each with its place."""
    found = []
    for sentence in sentences:
        place = f"{sentence.where}:{sentence.line}: "
        if sentence.words > LIMIT:
            found.append(f"{place}{sentence.words} words, at most {LIMIT}: {sentence.text}")
        for hard, better in phrases():
            if match := hard.search(sentence.text):
                found.append(f"{place}“{match[0]}”: better “{better}”: {sentence.text}")
    return found


def page(name: str) -> Iterator[Sentence]:
    """A page's sentences. The glossary names the words that it replaces."""
    text = (ROOT / name).read_text()
    return prose.markdown(name, re.sub(r"; not: .+?\.", ".", text) if name == "docs/glossary.md" else text)


def module_problems(name: str) -> list[str]:
    """Those of a module's docstrings and error messages."""
    source = (ROOT / name).read_text()
    return [*problems(prose.docstrings(name, source)), *problems(prose.error_messages(name, source))]


@pytest.mark.parametrize("name", PAGES)
def test_pages_are_easy_to_read(name: str) -> None:
    assert problems(page(name)) == []


def test_help_texts_are_easy_to_read() -> None:
    command = get_command(app)
    assert isinstance(command, TyperGroup)
    texts = prose.help_texts(command, "drahealth")
    assert problems(texts) == []


@pytest.mark.parametrize("folder", sorted({name.rsplit("/", 1)[0] for name in MODULES}))
def test_docstrings_and_errors_are_easy_to_read(folder: str) -> None:
    names = [name for name in MODULES if name.rsplit("/", 1)[0] == folder]
    assert [problem for name in names for problem in module_problems(name)] == []


def test_each_term_of_the_glossary_is_used() -> None:
    text = " ".join(s.text for name in PAGES if name != "docs/glossary.md" for s in page(name)).lower()
    text += " ".join(path.read_text().lower() for path in (ROOT / "suites" / "judging").glob("*.py"))
    unused = [term for terms, _ in glossary() for term in terms if term.lower() not in text]
    assert unused == []


def test_a_long_sentence_and_a_hard_phrase_are_found() -> None:
    text = "A short one. " + "word " * 31 + ". A driver falls silent.\n\n    hush\n\n- `hush`"
    assert [p.split(": ")[0] for p in problems(prose.markdown("page", text))] == ["page:1", "page:1"]


def test_messages_of_errors_are_extracted_with_their_fields_as_one_word() -> None:
    source = 'def f(port):\n    raise ValueError(f"port must be below 9, got {port}. " "Try 8.")'
    found = [(s.line, s.text) for s in prose.error_messages("module", source)]
    assert found == [(2, "port must be below 9, got CODE."), (2, "Try 8.")]
