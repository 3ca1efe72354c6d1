"""`drahealth play` on the reference: passed, failed and invalid timelines."""

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from drahealth.proto.events import TimeSkipped
from drahealth.proto.history import read_history
from drahealth.suites.commands.running import play_timelines
from drahealth.suites.errors import ConfigurationError
from drahealth.suites.unit.suites.test_command import BROKEN, drahealth

DAY = 86400
HEAD = "format: fault-timeline/v1\nname: a story\n"
BACK = """timeline:
  - {inject: xid/79, device: gpu-0}
  - {expect: {device: gpu-0, health: Unhealthy, message: "*off the bus"}}
  - {after: 30s, recover: reboot}
  - {expect: {device: all, health: Healthy, message: ""}, holds: 5s}
"""


def write(tmp_path: Path, text: str, name: str = "a.timeline.yaml") -> str:
    path = tmp_path / name
    path.write_text(HEAD + text)
    return str(path)


def test_a_timeline_with_met_expectations_passes(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    done = drahealth("play", write(tmp_path, BACK), "--report", str(report), "--histories", str(tmp_path))
    assert (done.returncode, done.stdout.splitlines()[-1][:8]) == (0, "1 passed")
    assert [found["outcome"] for found in json.loads(report.read_text())["scenarios"]] == ["passed"]
    assert "inject xid/79 (gpu-0)" in (tmp_path / "a story.jsonl").read_text()


def test_several_files_and_standard_input_are_played_with_junit_xml(tmp_path: Path) -> None:
    one, other = (write(tmp_path, "timeline: [{mark: a}]", f"{name}.timeline.yaml") for name in ("one", "other"))
    given = f"{HEAD}timeline: [{{mark: a}}]".encode()
    before = f"import io, sys\nsys.stdin = io.TextIOWrapper(io.BytesIO({given!r}))\n"
    done = drahealth("play", one, "-", other, "--junitxml", "j.xml", before=before, folder=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    cases = ElementTree.parse(tmp_path / "j.xml").iter("testcase")
    assert [(case.get("classname"), case.get("name")) for case in cases] == [
        (f"drahealth.timelines.{name}", "a story") for name in ("one", "stdin", "other")
    ]


def test_timelines_with_the_same_name_have_results_and_histories_of_their_own(tmp_path: Path) -> None:
    good = write(tmp_path, "timeline: [{expect: {health: Healthy}}]", "good.timeline.yaml")
    bad = write(tmp_path, "timeline: [{expect: {message: never}, within: 100ms}]", "bad.timeline.yaml")
    drahealth("play", bad, good, "--report", "r.json", "--histories", "h", folder=tmp_path)
    report = json.loads((tmp_path / "r.json").read_text())
    assert [(one["id"], one["outcome"], one["history_file"]) for one in report["scenarios"]] == [
        ("bad.timeline.yaml::a story", "failed", "h/a story.jsonl"),
        ("good.timeline.yaml::a story", "passed", "h/a story 2.jsonl"),
    ]
    done = drahealth("report", "r.json", "--html", "r.html", folder=tmp_path)
    page = (tmp_path / "r.html").read_text()
    assert (done.returncode, page.count('<details class="scenario"')) == (0, 2)


def test_an_unmet_expectation_violates_no_requirement(tmp_path: Path) -> None:
    steps = "timeline: [{expect: {device: gpu-0, health: Unhealthy}, within: 100ms}]"
    drahealth("play", write(tmp_path, steps), "--report", "r.json", folder=tmp_path)
    report = json.loads((tmp_path / "r.json").read_text())
    assert (report["exit_code"], {one["verdict"] for one in report["requirements"]}) == (1, {"NOT_TESTED"})
    assert "STATUS-10" not in report["scenarios"][0]["problem"]


def test_play_accepts_the_options_of_a_cluster(tmp_path: Path) -> None:
    done = drahealth("play", write(tmp_path, BACK), "--reuse", "mine")
    assert (done.returncode, done.stderr.partition(" is ")[0]) == (2, "drahealth: --reuse")


def test_a_manager_that_updates_no_pods_fails_with_the_expectation(tmp_path: Path) -> None:
    done = drahealth("play", write(tmp_path, BACK), before=BROKEN)
    assert done.returncode == 1
    assert "shows gpu-0 Unhealthy '*off the bus' within 0.2 s (push)" in done.stdout


@pytest.mark.parametrize(
    ("steps", "words"),
    [
        ("[{expect: {device: gpu-0, health: Unhealthy}, within: 100ms}]", "shows gpu-0 Unhealthy within 100ms"),
        (
            (
                "[{expect: {health: Healthy}, holds: 5s}, {at: 2s, inject: xid/95, device: gpu-0},"
                " {expect: {device: gpu-0, health: Unhealthy}}]"
            ),
            "is expected Unhealthy at 2 s, but Healthy by timeline.0",
        ),
        (
            "[{expect: {health: Healthy}, holds: 5s}, {at: 2s, inject: xid/95, device: gpu-0}, {mark: a, after: 9s}]",
            "still shows gpu-0 Healthy",
        ),
        (
            (
                "[{repeat: {times: 3, every: 1s, do: [{inject: xid/95, device: gpu-0, for: 500ms}]}},"
                " {expect: {health: Healthy, pod_writes: {max: 2}}, within: 100ms}]"
            ),
            "with at most 2 status writes",
        ),
    ],
)
def test_an_unmet_expectation_is_reported(tmp_path: Path, steps: str, words: str) -> None:
    done = drahealth("play", write(tmp_path, f"timeline: {steps}"))
    assert done.returncode in (1, 2)
    assert words in done.stdout + done.stderr


UNHEALTHY_DURING_HOLDS = """\
  - {expect: {health: Healthy}, holds: 5s}
  - {set: {health: Unhealthy}, device: all, at: 1s}
  - {mark: a, after: 9s}
"""
SECOND_INJECT_FAILS = """\
  - mark: a
  - {when: {calls: 1}, inject: xid/79, device: gpu-0}
  - repeat: {times: 1, every: 1s, do: [{mark: a}, {inject: xid/79, device: gpu-0, at: 2s}]}
"""


@pytest.mark.parametrize(
    ("steps", "outcome", "line", "step"),
    [
        ("  - {mark: a}\n  - {expect: {message: never}, within: 100ms}\n", "failed", 5, "timeline.1"),
        (UNHEALTHY_DURING_HOLDS, "failed", 4, "timeline.0"),
        (SECOND_INJECT_FAILS, "error", 6, "timeline.2.repeat.do.1"),
        ("  - mark: a\nalways:\n  - {expect: {message: never}, within: 100ms}\n", "failed", 6, "always.0"),
    ],
)
def test_a_failure_names_its_step(tmp_path: Path, steps: str, outcome: str, line: int, step: str) -> None:
    report, where = tmp_path / "report.json", f"a.timeline.yaml line {line}, {step}"
    done = drahealth("play", write(tmp_path, f"timeline:\n{steps}"), "--report", str(report))
    (found,) = json.loads(report.read_text())["scenarios"]
    assert (found["outcome"], found["where"], found["broken"]) == (outcome, where, [])
    assert found["authors_step"] is (outcome == "failed")
    assert found["problem"].count(f"{where}: ") == done.stdout.count(f"{where}: ") == 1
    assert f"# {step}: " in found["history"]


@pytest.mark.parametrize(
    ("steps", "notes"),
    [
        ("[{expect: {health: Healthy}}]", []),
        ("[{mark: a}]", ["the timeline has no `expect` step: only the final pod status was checked"]),
        (
            "[{expect: {health: Healthy}}, {when: {seen: Unhealthy}, expect: {message: never}}, {after: 1s, mark: a}]",
            [
                "a.timeline.yaml line 3, timeline.1 was skipped: its condition did not occur",
                "a.timeline.yaml line 3, timeline.2 was skipped: its condition did not occur",
            ],
        ),
    ],
)
def test_a_passed_timeline_without_checks_has_a_remark(tmp_path: Path, steps: str, notes: list[str]) -> None:
    report = tmp_path / "report.json"
    done = drahealth("play", write(tmp_path, f"timeline: {steps}"), "--report", str(report))
    (found,) = json.loads(report.read_text())["scenarios"]
    remarks = [note for note in found["notes"] if not note.startswith("pod ")]  # a pod may first show Unknown
    assert (found["outcome"], remarks) == ("passed", notes)
    assert [line.strip() for line in done.stdout.splitlines() if line.strip() in notes] == notes


def test_the_end_of_a_timeline_restores_a_healthy_driver(tmp_path: Path) -> None:
    steps = "[{driver: crash}, {stream: {stall: 20s}}, {inject: fabric/manager-down, device: gpu-0}]"
    done = drahealth("play", write(tmp_path, f"timeline: {steps}\nalways: [{{driver: start}}, {{reset: true}}]"))
    assert done.returncode == 0, done.stdout


def test_an_expectation_of_a_device_that_the_pod_does_not_hold_fails(tmp_path: Path) -> None:
    steps = """use: {inventory: [{name: gpu, count: 3}], workload: {devices: 2}}
timeline:
  - {expect: {device: held, health: Healthy}}
  - {expect: {device: gpu-2, health: Healthy}, within: 60s}
"""
    done = drahealth("play", write(tmp_path, steps))
    assert "expected: pod pod-3 shows gpu-2 Healthy\n  seen:     it holds gpu-0, gpu-1, and not gpu-2" in done.stdout


@pytest.mark.long
def test_days_without_a_change_are_skipped(tmp_path: Path) -> None:
    steps = "{inject: xid/79, device: gpu-0}, {after: 300d, recover: {action: reboot, takes: 1s}, device: gpu-0}"
    expected = "{expect: {device: gpu-0, health: Healthy}, within: push}"
    path = write(tmp_path, f"timeline: [{steps}, {expected}]")
    done = drahealth("play", path, "--histories", str(tmp_path))
    events = [record.what for record in read_history(tmp_path / "a story.jsonl").records]
    (skipped,) = (event.seconds for event in events if isinstance(event, TimeSkipped))
    assert (done.returncode, 299 * DAY < skipped < 300 * DAY) == (0, True)
    assert f"Healthy at {300 * DAY // 10**5}" in done.stdout


def test_speed_and_seed_are_used(tmp_path: Path) -> None:
    path = write(tmp_path, "timeline: [{mark: a, at: 1s..9s}]")
    hashes = []
    for seed in ("1", "2", "1"):
        drahealth("play", path, "--seed", seed, "--speed", "100", "--histories", str(tmp_path))
        story = (tmp_path / "a story.jsonl").read_text()
        hashes.append(story.partition("plan ")[2][:12])
        assert f"seed {seed}" in story
    assert hashes[0] == hashes[2] != hashes[1]


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("a.timeline.yaml", "timeline: [{inject: xid/97, device: gpu-0}]", "unknown fault"),
        ("a.timeline.yaml", "use: {inventory: none.yaml}\ntimeline: [{mark: a}]", "none.yaml cannot be read"),
        ("a.yaml", "timeline: [{mark: a}]", "a.yaml is not a timeline; its file name must end in .timeline.yaml"),
    ],
)
def test_an_invalid_timeline_gives_an_error_before_the_start(tmp_path: Path, name: str, text: str, words: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        play_timelines([Path(write(tmp_path, text, name))], {})
    assert words in str(refused.value)


def test_errors_of_all_timelines_of_a_folder_are_reported(tmp_path: Path) -> None:
    write(tmp_path, "timeline: [{inject: xid/97, device: gpu-0}]", "a.timeline.yaml")
    write(tmp_path, "timeline: [{mark: a}]", "b.timeline.yaml")
    write(tmp_path, "timeline: [{injct: xid/79, device: gpu-0}]", "c.timeline.yaml")
    (tmp_path / "d.timeline.yaml").symlink_to("nowhere")
    with pytest.raises(ConfigurationError) as refused:
        play_timelines([tmp_path], {})
    assert [line.partition(".timeline.yaml")[0] for line in str(refused.value).splitlines()] == [
        str(tmp_path / name) for name in "acd"
    ]
