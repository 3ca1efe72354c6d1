"""Timelines from files: all errors are reported together, with their lines."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from drahealth.fakes.program.user_files import MAX_BYTES, FileError, excess
from drahealth.fakes.timelines.load import load
from drahealth.fakes.timelines.model import VERBS, Timeline
from drahealth.fakes.timelines.play import stories

HEAD = "format: fault-timeline/v1\nname: n\n"
ONE = HEAD + "timeline:\n  - {inject: xid/79, device: gpu-0}\n"


def problems(text: str | bytes) -> list[str]:
    with pytest.raises(FileError) as error:
        load(text)
    return [str(problem) for problem in error.value.problems]


def test_a_file_may_hold_several_timelines() -> None:
    found = load(f"{ONE}---\n{ONE.replace('name: n', 'name: m')}")
    assert [(loaded.timeline.name, loaded.document.line(("timeline", 0))) for loaded in found] == [("n", 4), ("m", 9)]


def test_all_errors_are_reported_together_with_their_lines() -> None:
    steps = ["{at: 5 sec, mark: a}", "{expect: {helth: Healthy}}", "driver: krash", "{stream: {stall: 1s, drop: 1%}}"]
    found = problems(f"{HEAD}timeline:\n" + "".join(f"- {step}\n" for step in steps))
    assert [line.split(" (")[0].split(" 'start'")[0].split(" silence")[0] for line in found] == [
        "line 4: timeline.0.at: invalid duration '5 sec'",
        "line 5: timeline.1.expect.helth: unknown key; did you mean `health`?",
        "line 6: timeline.2.driver: must be",
        "line 7: timeline.3.stream: set exactly one of send,",
    ]


@pytest.mark.parametrize(
    ("step", "what"),
    [
        ("{mark: a, inject: b}", f"a step must have one of {', '.join(VERBS)}, got inject and mark"),
        ("{at: 1s}", f"a step must have one of {', '.join(VERBS)}, got none"),
        ("{mark: a, at: 1s, after: 1s}", "a step can have only one of at, after, when; got at and after"),
        ("{repeat: {every: 1s, do: [{mark: a}]}}", "set either times or for"),
        ("{repeat: {for: 9s, every: 0s, do: [{mark: a}]}}", "every must be above 0s"),
        ("{stream: {send: {devices: [], raw: ff}}}", "set either devices or raw"),
        ("{stream: {send: {device: gpu-0, raw: ff}}}", "this key is not allowed here"),
        ("{set: {}}", "set needs one of health, message, timeout, heartbeat"),
        ("{expect: {device: all}}", "expect needs one of health, message, pod_writes"),
        ("{mark: a, when: {calls: 1, seen: Healthy}}", "set either calls or seen"),
        ("{driver: {restart: {}, upgrade: {}}}", "set exactly one of restart, upgrade"),
        ("{taint: {key: a, effect: NoSched}}", "must be 'None', 'NoSchedule' or 'NoExecute', got 'NoSched'"),
        ("{pod: gone}", "must be 'keeps-failing', 'running' or 'deleted', got 'gone'"),
        ("{mark: a, probability: 8}", "must be between 0% and 100%, got 8"),
    ],
)
def test_invalid_step_is_reported_with_the_reason(step: str, what: str) -> None:
    assert [line.partition(": ")[2].partition(": ")[2] for line in problems(f"{HEAD}timeline: [{step}]")] == [what]


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "line 1: the file is empty"),
        ("- 1", "line 1: not a timeline"),
        ("a: [", "line 1: invalid YAML: expected the node content, but found '<stream end>'"),
        ("a: 1\na: 2", 'line 2: invalid YAML: found duplicate key "a" with value "2" (original value: "1")'),
        ("&a [*a]", "line 1: the document has more than 60 levels"),
        (b"\xff\xfe\xff", "line 1: invalid YAML: "),
    ],
)
def test_file_without_a_timeline_is_reported_as_one_error(text: str | bytes, what: str) -> None:
    (line,) = problems(text)
    assert line.startswith(what)


def test_aliases_of_aliases_do_not_fill_the_memory() -> None:
    bomb = "\n".join(["a0: &a0 [x]", *(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9))])
    assert problems(bomb)[0].endswith("the document has more than 100000 entries")


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "large.timeline.yaml"
    with path.open("wb") as file:
        file.truncate(MAX_BYTES + 1)
    with pytest.raises(FileError, match="at most 10000000 bytes"):
        stories(path)


@given(st.binary(max_size=200) | st.text(max_size=200).map(lambda text: HEAD + text))
@example(b"+_")  # which the YAML parser takes for a number
def test_any_file_is_a_timeline_or_a_file_error(text: str | bytes) -> None:
    try:
        found = load(text)
    except FileError:
        return
    assert all(isinstance(loaded.timeline, Timeline) for loaded in found)


ILL_FORMED = """format: fault-timeline/v1
name: ill-formed
use: {catalogue: foo}
timeline:
  - {at: 1x, inject: xid/79, device: gpu-0}
  - {recover: rebot, device: gpu-0}
---
format: fault-timeline/v1
name: well-formed
timeline:
  - {inject: xid/97, device: gpu-0}
"""


def test_unknown_names_are_reported_despite_malformed_steps(tmp_path: Path) -> None:
    path = tmp_path / "a.timeline.yaml"
    path.write_text(ILL_FORMED)
    with pytest.raises(FileError) as refused:
        stories(path)
    told = [(problem.line, problem.where) for problem in refused.value.problems]
    assert told == [(3, "use.catalogue"), (5, "timeline.0.at"), (6, "timeline.1.recover"), (11, "timeline.0.inject")]


def places(path: Path, text: str) -> list[str]:
    """Where something is wrong."""
    path.write_text(text)
    with pytest.raises(FileError) as refused:
        stories(path)
    return [problem.where for problem in refused.value.problems]


def test_unknown_top_level_key_hides_no_errors_of_steps(tmp_path: Path) -> None:
    steps = ("{inject: xid/97, device: gpu-0}", "{inject: xid/79, device: gpu-9}", "{expect: {helth: Healthy}}")
    text = f"{HEAD}sed: 7\ndescription: 7\ntimeline:\n" + "".join(f"  - {step}\n" for step in steps)
    found = places(tmp_path / "a.timeline.yaml", text)
    assert found == ["sed", "description", "timeline.0.inject", "timeline.1.device", "timeline.2.expect.helth"]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("sed: 7\ntimeline: [{mark: a}]", "sed: unknown key; did you mean `seed`?"),
        ("mrk: 7\ntimeline: [{mark: a}]", "mrk: unknown key"),
        (
            "use: {inventroy: x}\ntimeline: [{mark: a}]",
            "use.inventroy: unknown key; did you mean `inventory`?",
        ),
        ("timeline: [{injekt: xid/79}]", "timeline.0.injekt: unknown key; did you mean `inject`?"),
        (
            "timeline: [{stream: {send: {devics: []}}}]",
            "timeline.0.stream.send.devics: unknown key; did you mean `devices`?",
        ),
        (
            "timeline: [{repeat: {times: 1, every: 1s, do: [{recover: {actio: a}}]}}]",
            "timeline.0.repeat.do.0.recover.actio: unknown key; did you mean `action`?",
        ),
        (
            "use: {inventory: [{name: a, modell: b}]}\ntimeline: [{mark: a}]",
            "use.inventory.0.modell: unknown key; did you mean `model`?",
        ),
        ("timeline: [{mark: a, fro: 1s}]", "timeline.0.fro: unknown key; did you mean `for`?"),
    ],
)
def test_unknown_key_is_reported_with_the_closest_valid_key(text: str, told: str) -> None:
    assert told in [line.partition(": ")[2] for line in problems(HEAD + text)]


def test_missing_inventory_hides_no_other_errors(tmp_path: Path) -> None:
    text = HEAD + "use: {policy: foo, inventory: nope}\ntimeline: [{inject: xid/97, device: gpu-9}]\n"
    assert places(tmp_path / "a.timeline.yaml", text) == ["use.inventory", "use.policy", "timeline.0.inject"]


def test_inventory_errors_are_reported_with_timeline_errors(tmp_path: Path) -> None:
    (tmp_path / "devices.yaml").write_text("format: inventory/v1\ndevices: [{name: A}, {name: b}, {name: b}]\n")
    (path := tmp_path / "a.timeline.yaml").write_text(
        f"{HEAD}use: {{inventory: devices.yaml}}\ntimeline: [{{at: x, mark: a}}]\n"
    )
    with pytest.raises(FileError) as refused:
        stories(path)
    assert [str(problem).split(": must have")[0].split(" (")[0] for problem in refused.value.problems] == [
        "line 3: use.inventory: devices.yaml: line 2: devices.0.name",
        "line 3: use.inventory: devices.yaml: line 2: devices.2: duplicate device name: b",
        "line 4: timeline.0.at: invalid duration 'x'",
    ]


def test_malformed_nested_step_hides_no_errors_of_other_steps(tmp_path: Path) -> None:
    inner = "[{at: 1x, mark: a}, {recover: rebot, device: gpu-9}]"
    text = f"{HEAD}timeline: [{{repeat: {{times: 1, every: 1s, do: {inner}}}}}, {{parallel: [{inner}]}}]"
    assert places(tmp_path / "a.timeline.yaml", text) == [
        "timeline.0.repeat.do.0.at",
        "timeline.0.repeat.do.1.device",
        "timeline.0.repeat.do.1.recover",
        "timeline.1.parallel.0.0.at",
        "timeline.1.parallel.0.1.device",
        "timeline.1.parallel.0.1.recover",
    ]


def test_invalid_yaml_document_hides_no_errors_of_earlier_documents(tmp_path: Path) -> None:
    text = f"{HEAD}timeline: [{{inject: xid/79, device: gpu-9}}]\n---\na: ["
    assert places(tmp_path / "a.timeline.yaml", text) == ["timeline.0.device", ""]


@pytest.mark.parametrize(
    ("step", "told"),
    [
        ("{inject: xid/97, device: gpu-9, at: soon, fro: 1s}", ["at", "device", "fro", "inject"]),
        ("{inject: xid/97, device: [7]}", ["device", "inject"]),
        ("{inject: xid/97, devcie: gpu-0}", ["devcie", "inject"]),
        ("{injekt: xid/97, device: gpu-0}", ["injekt"]),
        ("{inject: xid/79, clear: xid/79, at: soon}", ["", "at"]),
        ("{mark: a, repeat: 3, at: soon}", ["at", "repeat"]),
    ],
)
def test_all_errors_of_a_step_are_reported_together(tmp_path: Path, step: str, told: list[str]) -> None:
    found = places(tmp_path / "a.timeline.yaml", f"{HEAD}timeline: [{step}]")
    assert found == [f"timeline.0.{key}".rstrip(".") for key in told]


def test_duplicate_verbs_and_times_of_a_step_are_both_reported() -> None:
    (problem,) = problems(f"{HEAD}timeline: [{{mark: a, reset: true, at: 1s, after: 1s}}]")
    assert ("got mark and reset" in problem or "got reset and mark" in problem, "got at and after" in problem) == (
        True,
        True,
    )


def test_name_with_terminal_escape_codes_is_rejected() -> None:
    (problem,) = problems('format: fault-timeline/v1\nname: "a\\e[31m"\ntimeline: [{mark: a}]')
    assert problem.startswith("line 2: name: a name must have only printable characters")


def test_a_file_with_too_many_entries_is_rejected_before_it_is_read() -> None:
    steps = "  - {at: 1s, inject: xid/79, device: gpu-0}\n"
    assert excess(f"{HEAD}timeline:\n{steps * 25_000}") == 3 + 24_999 + 1
    assert excess(f"{HEAD}timeline:\n{steps * 24_999}") is None
    (problem,) = problems(f"{HEAD}timeline:\n{steps * 40_000}")
    assert problem == "line 25003: the document has more than 100000 entries"


STEPS: list[tuple[dict[str, Any], str]] = [
    ({"mark": "fine"}, "fine"),
    ({"mark": "a", "at": "5 sec"}, "at"),
    ({"expect": {"helth": "Healthy"}}, "expect.helth"),
    ({"mark": "a", "within": "push"}, "within"),
    ({"recover": "rebot", "device": "gpu-0"}, "recover"),
    ({"inject": "xid/97", "device": "gpu-0"}, "inject"),
    ({"inject": "xid/95", "device": "tpu-0"}, "device"),
]
USES: list[tuple[dict[str, Any], list[str], set[str]]] = [
    ({}, [], set()),
    ({"use": {"policy": "nvida"}}, ["use.policy"], set()),
    ({"use": {"catalogue": "nvida"}}, ["use.catalogue"], {"inject"}),
    ({"use": {"catalogue": 3}}, ["use.catalogue"], {"inject", "device"}),
    (
        {"use": {"inventory": [{"name": "gpu", "count": "x"}, {"name": "a"}, {"name": "a"}]}},
        ["use.inventory.0.count", "use.inventory.2"],
        {"device"},
    ),
    ({"use": {"inventry": []}}, ["use.inventry"], {"device"}),
    ({"uses": {"catalogue": "amd"}, "seed": "x"}, ["uses", "seed"], {"inject", "device"}),
    ({"use": []}, ["use"], {"inject", "device"}),
]


@given(steps=st.lists(st.sampled_from(STEPS), min_size=1, max_size=5), use=st.sampled_from(USES))
def test_each_detectable_error_is_reported(
    tmp_path_factory: pytest.TempPathFactory,
    steps: list[tuple[dict[str, Any], str]],
    use: tuple[dict[str, Any], list[str], set[str]],
) -> None:
    said, wrong, hidden = use
    planted = {
        f"timeline.{number}.{where}" for number, (_, where) in enumerate(steps) if where not in hidden | {"fine"}
    }
    text = json.dumps(
        {"format": "fault-timeline/v1", "name": "n", **said, "timeline": [step for step, _ in steps], "always": [{}]}
    )
    assert set(places(tmp_path_factory.mktemp("faulty") / "a.timeline.yaml", text)) == {*planted, *wrong, "always.0"}
