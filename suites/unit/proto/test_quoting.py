"""Quoted foreign text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drahealth.proto.quoting import one_line, printable, printable_lines, quoted


@pytest.mark.parametrize("text", ["", "gpu.example.com", "a/b c", "Ünïcode 😀", "x" * 200])
def test_an_ordinary_text_stays_as_it_is(text: str) -> None:
    assert one_line(text) == text


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a\nERROR b\r", r"a\nERROR b\r"),
        ("\x00\x1b[31m", r"\x00\x1b[31m"),
        ("\u2028\u202e\udcff", r"\u2028\u202e\udcff"),
        ("x" * 201, "x" * 200 + "... (201 characters)"),
        ("\0" * 100, r"\x00" * 50 + "... (100 characters)"),
    ],
    ids=ascii,
)
def test_control_characters_are_escaped_and_long_texts_are_cut(text: str, line: str) -> None:
    assert one_line(text) == line


@pytest.mark.parametrize(("value", "text"), [(None, "nothing"), ("v1", "'v1'"), (7, "7"), ("a\nb", r"'a\nb'")])
def test_a_missing_value_is_quoted_as_nothing(value: object, text: str) -> None:
    assert quoted(value) == text


@given(st.text(st.characters()), st.integers(1, 50))
def test_any_text_becomes_one_printable_line_of_limited_length(text: str, limit: int) -> None:
    line = one_line(text, limit)
    assert line.isprintable()
    assert len(line) <= limit + len("... (123456789 characters)")


@given(st.text(st.characters()))
def test_any_text_becomes_printable_without_a_cut(text: str) -> None:
    shown = printable(text)
    assert shown.isprintable()
    assert len(shown) >= len(text)


def test_printable_lines_keep_newlines_and_escape_terminal_sequences() -> None:
    assert printable_lines("a\x1b[2J\n\x9b2J\r\n") == "a\\x1b[2J\n\\x9b2J\\r\n"
