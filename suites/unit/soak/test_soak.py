"""`drahealth soak` on the reference: rounds, leaks, interrupts, continued soaks and wrong usage."""

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from drahealth.suites.errors import ConfigurationError
from drahealth.suites.report.document import to_json
from drahealth.suites.unit.report.reports import soaked
from drahealth.suites.unit.suites.test_command import BROKEN, NOWHERE, drahealth

SHORT = """
from drahealth.suites.soak import campaign
from drahealth.suites.soak.random_timelines import Pace
campaign.SIMULATED = Pace(1.0, 2)
"""
"""Rounds that last less than a second, and restart the kubelet in every second one."""

LEAKING = f"""{SHORT}
import os
from drahealth.suites.soak import leaks, watch
leaks.WARM_UP, leaks.SAMPLES = 0.0, 4
leaks.LIMITS = dict(leaks.LIMITS, descriptors=leaks.Limit(0.5, 2, 0, 1.0))
held, sample = [], watch.Watch.sample
def leak(self, at):
    for number in range(5):
        held.append(os.dup(0))
        sample(self, at + number / 10)
watch.Watch.sample = leak
"""

LOST = f"""{SHORT}
from drahealth.suites.errors import HarnessError
from drahealth.suites.targets.reference.target import ReferenceTarget
def check(self): raise HarnessError("kubelet has ended (killed)")
async def advance_time(self, seconds): check(self)
ReferenceTarget.check, ReferenceTarget.advance_time = check, advance_time
"""

INTERRUPTED = f"""{SHORT}
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from drahealth.suites.soak import rounds
play_round, played = rounds.play_round, []
async def interrupted(*arguments, **more):
    played.append(1)
    if len(played) == 2:
        signal.raise_signal(signal.SIGINT)
    await play_round(*arguments, **more)
campaign.play_round = interrupted
"""


def read(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def test_soak_plays_rounds_until_its_time_is_over(tmp_path: Path) -> None:
    done = drahealth(
        *("soak", "--for", "1s", "--seed", "3", "--report", "s.json", "--junitxml", "s.xml"),
        before=SHORT,
        folder=tmp_path,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    report = read(tmp_path / "s.json")
    assert (report["kind"], report["verdict"], report["complete"]) == (
        *("soak", "passed, leaks of drahealth not judged"),
        True,
    )
    assert report["soak"]["rounds"] == len(report["scenarios"]) == report["counts"]["passed"]
    cases = [case.get("name") for case in ElementTree.parse(tmp_path / "s.xml").iter("testcase")]
    assert cases[-4:] == [f"drahealth {name}" for name in ("processes", "descriptors", "threads", "memory")]


def test_one_round_can_be_played_alone(tmp_path: Path) -> None:
    done = drahealth("soak", "--seed", "3", "--round", "2", "--report", "s.json", before=SHORT, folder=tmp_path)
    report = read(tmp_path / "s.json")
    assert (done.returncode, [one["name"] for one in report["scenarios"]]) == (0, ["round 2"])


def test_interrupted_soak_continues_after_its_last_round(tmp_path: Path) -> None:
    first = drahealth("soak", "--for", "9s", "--seed", "3", "--report", "s.json", before=INTERRUPTED, folder=tmp_path)
    half = read(tmp_path / "s.json")
    assert (first.returncode, half["verdict"], half["soak"]["rounds"]) == (3, "interrupted", 1)
    assert "drahealth soak --continue s.json" in first.stdout
    longer = f"{half['soak']['lasted'] + 0.5:.0f}s"
    done = drahealth("soak", "--continue", "s.json", "--for", longer, before=SHORT, folder=tmp_path)
    whole = read(tmp_path / "s.json")
    assert (done.returncode, whole["complete"], whole["soak"]["pieces"]) == (0, True, 2)
    assert [one["name"] for one in whole["scenarios"]] == [
        f"round {number}" for number in range(1, whole["soak"]["rounds"] + 1)
    ]


def test_leak_fails_a_soak(tmp_path: Path) -> None:
    done = drahealth("soak", "--for", "1s", "--seed", "3", "--report", "s.json", before=LEAKING, folder=tmp_path)
    assert (done.returncode, read(tmp_path / "s.json")["verdict"]) == (1, "failed, drahealth leaks descriptors")


def test_wrong_kubelet_fails_a_round(tmp_path: Path) -> None:
    done = drahealth("soak", "--for", "1s", "--seed", "3", "--report", "s.json", before=SHORT + BROKEN, folder=tmp_path)
    (failed,) = [one for one in read(tmp_path / "s.json")["scenarios"] if one["outcome"] == "failed"][:1]
    assert (done.returncode, failed["rerun"]) == (1, "drahealth soak --target reference --seed 3 --round 1")


@pytest.mark.parametrize(
    ("before", "problem"), [(NOWHERE, "no node came up"), (LOST, "the target stopped working: kubelet has ended")]
)
def test_target_that_does_not_start_or_is_lost_ends_the_soak(before: str, problem: str) -> None:
    done = drahealth("soak", "--for", "1h", "--seed", "3", before=before)
    assert (done.returncode, problem in done.stdout + done.stderr) == (3, True)


def soak_file(folder: Path, **changed: Any) -> str:
    """The report of an interrupted soak of 60 of 600 s."""
    path = folder / "s.json"
    data = json.loads(to_json(soaked()))
    data["conditions"] |= changed
    path.write_text(json.dumps(data))
    return str(path)


@pytest.mark.parametrize(
    ("options", "changed", "problem"),
    [
        ({"duration": "ten"}, None, "--for: invalid duration 'ten'"),
        ({"duration": "1s..9s"}, None, "--for must be one duration, got '1s..9s'"),
        ({"duration": "10ms"}, None, "--for must be between 1s and 30d, got '10ms'"),
        ({"number": 3}, None, "--round needs --seed, and neither --for nor --continue"),
        ({"continued": "nowhere.json"}, None, "cannot read nowhere.json: No such file or directory"),
        ({"seed": 8}, {}, "{file} has the seed 7, not 8"),
        ({"duration": "30s"}, {}, "{file} has lasted 60 s already"),
        (
            {"target": "kubelet"},
            {},
            "{file} is a soak of the reference, profile kep, and the options name another target",
        ),
        ({}, {"versions": {"drahealth": "0.0.1"}}, "{file} is a soak of drahealth 0.0.1, and this is"),
    ],
)
def test_wrong_options_are_rejected_before_anything_starts(
    options: dict[str, Any], changed: dict[str, Any] | None, problem: str, tmp_path: Path
) -> None:
    from drahealth.suites.commands.soak_run import run_soak

    file = "" if changed is None else soak_file(tmp_path, **changed)
    known = {"duration": None, "seed": None, "number": None, "report": None, "junitxml": None}
    given = {"target": options.pop("target", None)}
    with pytest.raises(ConfigurationError) as rejected:
        run_soak(given, **{**known, "continued": file or None, **options})
    assert rejected.value.message.startswith(problem.format(file=file))
