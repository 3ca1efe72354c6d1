"""Scripts as JSON, and invalid scripts."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings

from differential.generation import scripts
from differential.script import Record, Script, load_scripts, parse_script
from drahealth.suites.errors import ConfigurationError
from drahealth.suites.unit.differential.scripts import dump_script, script, unhealthy

PLAIN = json.loads(dump_script(script(unhealthy())))
ONE_PLUGIN = {"plugins": [{"devices": ["a"]}]}


@given(scripts())
@settings(max_examples=50, deadline=None)
def test_a_script_is_the_same_after_a_round_trip_through_json(drawn: Script) -> None:
    assert parse_script(dump_script(drawn)) == drawn


def test_records_and_scripts_are_both_read(tmp_path: Path) -> None:
    record, alone = tmp_path / "record.json", tmp_path / "alone.json"
    record.write_text(Record(script(unhealthy()), "1.37.1", ("one",)).dump())
    alone.write_text(dump_script(script()))
    assert load_scripts([record, alone]) == {0: script(unhealthy()), 1: script()}


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"drivers": 3}, "invalid script: drivers"),
        ({"surprise": 1}, "surprise: unknown field"),
        ({"steps": [{"step": "dance"}]}, "steps.0: unknown step 'dance'"),
        (
            {"steps": [{"step": "report", "driver": 0, "says": [{"pool": "p", "device": "d", "health": 2**31}]}]},
            "health",
        ),
        ({"steps": [{"step": "garbage", "driver": 0, "payload": "f"}]}, "payload"),
        ({"steps": [{"step": "start", "driver": 0}]}, "step 0: instance 0 of driver 0 runs"),
        ({"steps": [{"step": "start-pod", "pod": 0}]}, "step 0: pod 0 cannot be started or deleted now"),
        ({"claims": []}, "pod 0 uses a claim"),
        ({"plugins": [{"devices": ["a", "a"]}]}, "plugin 0 has two devices with the same id"),
        ({"pods": [{"containers": [[{"plugin": 0}]]}]}, "pod 0 uses a claim, request or device plugin"),
        ({**ONE_PLUGIN, "pods": [{"containers": [[{"plugin": 0, "count": 2}]]}]}, "plugin 0 has too few devices"),
        (
            {**ONE_PLUGIN, "pods": [{"containers": [[{"plugin": 0}, {"plugin": 0}]]}]},
            "the same claim or device plugin twice",
        ),
        ({"steps": [{"step": "end-list", "plugin": 0}]}, "step 0 names device plugin 0, which does not exist"),
        ({**ONE_PLUGIN, "steps": [{"step": "start-plugin", "plugin": 0}]}, "step 0: instance 0 of plugin 0 runs"),
        ({**ONE_PLUGIN, "steps": [{"step": "list", "plugin": 0, "devices": [{"device": "b"}]}]}, "step 0 lists"),
        (
            {
                **ONE_PLUGIN,
                "pods": [{"containers": [[{"plugin": 0}]], "later": True}],
                "steps": [{"step": "end-list", "plugin": 0}, {"step": "start-pod", "pod": 0}],
            },
            "step 1: pod 0 starts after a change of its device plugin",
        ),
    ],
)
def test_an_invalid_script_gives_a_one_line_error(changed: dict[str, object], says: str) -> None:
    with pytest.raises(ConfigurationError, match=r"^invalid script: ") as told:
        parse_script(json.dumps({**PLAIN, **changed}))
    assert says in str(told.value)
    assert "\n" not in str(told.value)


@pytest.mark.parametrize("content", [b"", b"[", b"\xff", b'{"script": 1}'])
def test_a_file_without_a_script_gives_an_error_with_its_name(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "odd.json"
    path.write_bytes(content)
    with pytest.raises(ConfigurationError, match=r"odd\.json"):
        load_scripts([path])
