"""Scripts of fake containers, parsed from commands and annotations."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drahealth.fakes.cluster.runtime import ANNOTATION, UNTIL_ENDED, Script, parse, parse_annotation

SPACE = st.sampled_from(["", " ", "  ", "\t"])
SECONDS = st.integers(0, 10**6) | st.decimals(0, 1000, places=2)


@st.composite
def statements(draw: st.DrawFn) -> str:
    text = draw(st.builds("sleep {}".format, SECONDS) | st.builds("exit {}".format, st.integers(0, 255)))
    return f"{draw(SPACE)}{text}{draw(SPACE)}"


@given(st.lists(SECONDS, max_size=5), st.integers(0, 255), st.lists(statements(), max_size=3))
def test_a_script_sleeps_the_sum_and_exits_with_its_first_code(slept: list[float], code: int, rest: list[str]) -> None:
    text = ";".join([*(f"sleep {seconds}" for seconds in slept), f"exit {code}", *rest])
    script = parse(["sh", "-c", text])
    assert script.code == code
    assert script.seconds == pytest.approx(float(sum(slept)))


@given(st.lists(statements(), min_size=1, max_size=6))
def test_a_closing_separator_changes_nothing(texts: list[str]) -> None:
    assert parse(["sh", "-c", ";".join(texts)]) == parse(["/bin/sh", "-c", ";".join(texts) + " ; "])


@given(st.lists(statements(), max_size=4), st.sampled_from(["true", "sleep", "exit 256", "sleep -1", "", "exit 1 2"]))
def test_unknown_statement_makes_the_command_no_script(texts: list[str], foreign: str) -> None:
    assert parse(["sh", "-c", "; ".join([*texts, foreign, "exit 0"])]) == UNTIL_ENDED


@given(st.lists(st.text()))
def test_any_command_is_parsed_without_an_error(command: list[str]) -> None:
    assert parse(command).seconds >= 0


@pytest.mark.parametrize(
    ("text", "script"),
    [
        ("sleep 2; exit 1", Script(2, 1)),
        ("exit 1", Script(0, 1)),
        ("sleep 0.5", Script(0.5, 0)),
        ("sleep infinity", UNTIL_ENDED),
        ("sleep infinity; exit 3", Script(math.inf, 3)),
        ("", Script(0, 0)),
    ],
)
def test_documented_scripts_are_parsed(text: str, script: Script) -> None:
    assert parse(["sh", "-c", text]) == script


@pytest.mark.parametrize("command", [[], ["pause"], ["sh", "-c"], ["sh", "-x", "exit 1"], ["sh", "-c", "exit 1", "x"]])
def test_other_commands_run_until_ended(command: list[str]) -> None:
    assert parse(command) == UNTIL_ENDED


def test_lines_of_output_have_the_time_before_them() -> None:
    script = parse(["sh", "-c", "echo 'loads a model'; sleep 2; echo; echo done ; sleep infinity"])
    assert script == Script(math.inf, lines=((0.0, "loads a model"), (2.0, ""), (2.0, "done")))


@pytest.mark.parametrize(
    ("annotations", "script"),
    [
        ({f"{ANNOTATION}.main": "exit 3", ANNOTATION: "exit 1"}, Script(0, 3)),
        ({ANNOTATION: "exit 1"}, Script(0, 1)),
        ({f"{ANNOTATION}.other": "exit 1"}, None),
    ],
)
def test_the_annotation_of_a_container_comes_before_that_of_all(
    annotations: dict[str, str], script: Script | None
) -> None:
    assert parse_annotation(annotations, "main") == script


def test_an_annotation_that_is_no_script_is_rejected() -> None:
    with pytest.raises(ValueError, match="rm -rf"):
        parse_annotation({ANNOTATION: "rm -rf"}, "main")
