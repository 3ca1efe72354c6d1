"""The event vocabulary: its registry and its JSON form."""

import json
import re
from dataclasses import fields
from typing import Any, get_args, get_type_hints

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drahealth.proto.events import EVENTS, Event, GateSet, Plain, Step, from_json, to_json, to_json_text

FINITE = st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | FINITE | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
OBJECT = st.dictionaries(st.text(), JSON, max_size=3)
OF_TYPE = {Plain: OBJECT, Plain | None: st.none() | OBJECT, Any: JSON, float: FINITE}
st.register_type_strategy(dict, OBJECT)
st.register_type_strategy(float, FINITE)


def some(kind: type[Event]) -> st.SearchStrategy[Event]:
    """Any events of this type."""
    hints = get_type_hints(kind)
    odd = {field.name: OF_TYPE[hints[field.name]] for field in fields(kind) if hints[field.name] in OF_TYPE}
    return st.builds(kind, **odd)


def events() -> st.SearchStrategy[Event]:
    """Any events."""
    return st.one_of(*map(some, EVENTS.values()))


@pytest.mark.parametrize("word", EVENTS)
@given(data=st.data())
@settings(max_examples=25)
def test_event_round_trips_through_json(word: str, data: st.DataObject) -> None:
    event = data.draw(some(EVENTS[word]))
    assert from_json(json.loads(json.dumps(to_json(event)))) == event
    assert from_json(json.loads(to_json_text(event))) == event


def test_word_of_an_event_is_kebab_case() -> None:
    assert [word for word in EVENTS if not re.fullmatch("[a-z]+(-[a-z]+)*", word)] == []
    assert {word: kind.event for word, kind in EVENTS.items() if kind.event != word} == {}


def test_no_field_has_a_name_that_lines_use_themselves() -> None:
    used = {"at", "event", "time", "left_out_before"}
    assert [(word, field.name) for word, kind in EVENTS.items() for field in fields(kind) if field.name in used] == []


def test_json_form_has_the_word_and_the_fields() -> None:
    assert list(to_json(GateSet("G", True)).items()) == [
        *(("event", "gate-set"), ("gate", "G"), ("on", True), ("api_server", None), ("kubelet", None)),
    ]


def test_invalid_unicode_is_written_as_json_escapes() -> None:
    assert json.loads(to_json_text(Step("a\ud800"))) == {"event": "step", "text": "a\ud800"}


def test_fields_of_later_versions_are_ignored() -> None:
    assert from_json({"event": "step", "text": "on", "mood": "good"}) == Step("on")


@pytest.mark.parametrize(
    ("data", "named"),
    [
        ([], "object"),
        ({}, "None"),
        ({"event": "stop"}, "'stop'"),
        ({"event": ["step"]}, "['step']"),
        ({"event": "step"}, "step.text"),
        ({"event": "time-passed", "seconds": "long"}, "time-passed.seconds"),
        ({"event": "report-sent", "driver": "d", "instance": "", "stream": "s", "devices": [{}]}, "devices.0.pool"),
    ],
)
def test_invalid_event_data_is_rejected_with_the_wrong_part(data: Any, named: str) -> None:
    with pytest.raises(ValueError, match=re.escape(named)):
        from_json(data)


def test_each_event_has_a_name_of_its_own() -> None:
    assert set(EVENTS.values()) == set(get_args(Event))
