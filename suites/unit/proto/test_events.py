"""The events of a history, and its JSON Lines form."""

import json
from collections.abc import Iterable
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drahealth.proto.events import Event, GateSet, Record, Step, TimePassed, dump_lines, from_json, load_lines, to_json

HEADER = '{"history": "drahealth/v1"}'
STEP = '{"at": 1.5, "event": "step", "text": "the node starts"}'
FINITE = st.floats(allow_nan=False, allow_infinity=False)


def some(kind: type[Event]) -> st.SearchStrategy[Event]:
    return st.builds(TimePassed, FINITE) if kind is TimePassed else st.from_type(kind)


EVENTS = st.one_of(*map(some, get_args(Event)))
RECORDS = st.builds(Record, st.floats(0, 1e6).map(lambda at: round(at, 6)), EVENTS)


@pytest.mark.parametrize("kind", get_args(Event))
@given(data=st.data())
@settings(max_examples=25)
def test_an_event_comes_back_from_json_as_it_was(kind: type[Event], data: st.DataObject) -> None:
    event = data.draw(some(kind))
    assert from_json(json.loads(json.dumps(to_json(event)))) == event


def test_every_event_has_a_word_of_its_own() -> None:
    words = [kind.event for kind in get_args(Event)]
    assert len(set(words)) == len(words)


@given(st.lists(RECORDS, max_size=5))
def test_a_history_comes_back_from_its_lines_as_it_was(records: list[Record]) -> None:
    assert load_lines(dump_lines(records)) == records


def test_the_lines_are_a_header_and_a_record_each() -> None:
    assert list(dump_lines([Record(1.23456789, Step("the node starts"))])) == [
        HEADER,
        '{"at": 1.234568, "text": "the node starts", "event": "step"}',
    ]


def test_what_a_later_version_adds_to_an_event_is_ignored() -> None:
    assert from_json({"event": "step", "text": "on", "mood": "good"}) == Step("on")


def test_a_gate_of_an_older_history_does_not_tell_of_its_sides() -> None:
    assert from_json({"event": "gate-set", "gate": "G", "on": False}) == GateSet("G", False, None, None)


@pytest.mark.parametrize(
    ("lines", "wrong"),
    [
        ([], "line 1: it is empty, not a history of version drahealth/v1"),
        ([STEP], "line 1: not a history of version drahealth/v1"),
        (['{"history": "drahealth/v9"}'], "line 1: not a history of version drahealth/v1"),
        (["[]"], "line 1: not a JSON object"),
        ([HEADER, STEP, "{"], "line 3: Expecting property name"),
        ([HEADER, ""], "line 2: Expecting value"),
        ([HEADER, STEP, "[1]"], "line 3: not a JSON object"),
        ([HEADER, "7"], "line 2: not a JSON object"),
        ([HEADER, "[" * 100_000], "line 2: "),
        ([HEADER, '{"event": "step", "text": "on"}'], "line 2: its time is None, not a number of seconds"),
        (
            [HEADER, '{"at": "soon", "event": "step", "text": "on"}'],
            "line 2: its time is 'soon', not a number of seconds",
        ),
        ([HEADER, '{"at": NaN, "event": "step", "text": "on"}'], "line 2: its time is nan, not a number of seconds"),
        ([HEADER, '{"at": 1, "event": "step"}'], "line 2: step.text: Field required"),
        ([HEADER, '{"at": 1, "event": "stop"}'], "line 2: event: Input tag 'stop' found using 'event'"),
    ],
)
def test_a_line_that_is_no_record_is_named_by_its_number(lines: Iterable[str], wrong: str) -> None:
    with pytest.raises(ValueError, match="line") as error:
        load_lines(lines)
    assert str(error.value).startswith(wrong)
    assert "\n" not in str(error.value)


@given(st.lists(st.sampled_from([HEADER, STEP]) | st.text() | st.from_type(float).map(json.dumps)))
def test_any_lines_are_a_history_or_a_clear_refusal(lines: list[str]) -> None:
    if lines and lines[0] == HEADER and set(lines[1:]) <= {STEP}:
        assert load_lines(lines) == [Record(1.5, Step("the node starts"))] * (len(lines) - 1)
    else:
        with pytest.raises(ValueError, match=r"^line \d+: "):
            load_lines(lines)
