"""The changes of the reference that were written by hand."""

from collections import Counter
from pathlib import Path

import pytest

from mutation.hand import (
    ROOT,
    DoesNotApplyError,
    HandMutant,
    HandMutantError,
    changed_modules,
    parse_hand,
    read_hand,
    runs_at_import,
)

EVERY = read_hand(ROOT / "ci" / "mutants" / "hand")
FILE = 'part = "streams"\n[[mutant]]\nname = "a"\ndoes = "It ends."\nfile = "m.py"\nold = "x"\nnew = ""\n'


def mutant(old: str, new: str) -> HandMutant:
    return HandMutant("a", "streams", "It ends.", "m.py", old, new)


def problem(one: HandMutant) -> str:
    """The reason for which a change cannot be applied, or nothing."""
    if one.path not in changed_modules():
        return f"{one.path} is none of the changed modules"
    source = (ROOT / one.path).read_text()
    try:
        compile(one.changed(source), one.path, "exec")
    except (DoesNotApplyError, SyntaxError) as error:
        return repr(error)
    return "" if one.lines(source) else "it changes no line"


def test_each_change_applies_once_and_compiles() -> None:
    assert {one.name: found for one in EVERY if (found := problem(one))} == {}


def test_there_are_enough_changes_of_each_part() -> None:
    counts = Counter(one.part for one in EVERY)
    assert (len(EVERY) >= 150, len(counts), [part for part, number in counts.items() if number < 8]) == (True, 11, [])


def test_each_description_is_one_sentence() -> None:
    assert [one.name for one in EVERY if not one.does.endswith(".") or ". " in one.does] == []


def test_no_two_changes_are_the_same() -> None:
    counts = Counter((one.path, one.old, one.new) for one in EVERY)
    assert [text for text, number in counts.items() if number > 1] == []


@pytest.mark.parametrize("source", ["y", "xx"])
def test_change_with_missing_or_repeated_text_does_not_apply(source: str) -> None:
    with pytest.raises(DoesNotApplyError):
        mutant("x", "z").changed(source)
    assert not mutant("x", "z").lines(source)


@pytest.mark.parametrize(
    ("old", "new", "lines"),
    [("b", "x", [2]), ("b\nc", "b\nx", [3]), ("b\nc\n", "", [2, 3, 4]), ("b\n", "b\nx\n", [2, 3])],
)
def test_a_change_covers_the_lines_that_differ(old: str, new: str, lines: list[int]) -> None:
    assert list(mutant(old, new).lines("a\nb\nc\nd\n")) == lines


def test_another_text_is_another_change() -> None:
    assert mutant("x", "y").trial_key != mutant("x", "z").trial_key


@pytest.mark.parametrize(("line", "expected"), [(1, True), (2, True), (3, False), (4, False)])
def test_lines_outside_of_functions_run_at_import(line: int, expected: bool) -> None:
    assert runs_at_import("x = 1\ndef f():\n\n    return 1\n", [line]) is expected


@pytest.mark.parametrize(
    "text",
    [
        "=",
        'part = "streams"\n',
        FILE.replace("does", "did"),
        FILE.replace('old = "x"', 'old = ""'),
        FILE.replace('"m.py"', "1"),
    ],
)
def test_an_invalid_file_is_rejected(text: str) -> None:
    with pytest.raises(HandMutantError, match=r"streams\.toml"):
        parse_hand(text, "streams.toml")


def test_a_name_that_two_files_have_is_rejected(tmp_path: Path) -> None:
    for file in ("a.toml", "b.toml"):
        (tmp_path / file).write_text(FILE)
    with pytest.raises(HandMutantError, match="two changes have the name a"):
        read_hand(tmp_path)
