"""What kubelets were seen to do with the scripts in docs/differences, the reference does as well."""

from dataclasses import replace
from pathlib import Path

import pytest

from drahealth.manager.profile import KEP, V1_37, for_release
from drahealth.suites.differential.comparison import compare
from drahealth.suites.differential.record import load_record
from drahealth.suites.differential.timing import doubts
from drahealth.suites.differential.venue import play_on_references

FOLDER = Path(__file__).parents[3] / "docs/differences"
RECORDS = sorted(FOLDER.glob("*.json"))


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.stem)
async def test_the_reference_does_as_the_kubelet_did(path: Path) -> None:
    record = load_record(path)
    profile = for_release(record.kubernetes)
    assert record.seen
    assert profile
    ours = await play_on_references(record.script, profile, record.seen.times)
    doubtful = doubts(record.script, record.seen.times)
    differences = compare(ours, record.seen)
    assert [str(d) for d in differences if not doubtful.cover(d.step, d.moment)] == []


@pytest.mark.parametrize(
    ("name", "column"),
    [
        ("a-device-twice-in-a-report", "named_twice"),
        ("timeout-wraps", "timeouts_wrap"),
        ("message-cut-in-a-character", "message_cut"),
        ("names-joined", "names_joined"),
        ("one-id-for-two-devices", "duplicate_id_shows"),
        ("stale-device-recovers", "recovery_notifies"),
        ("too-many-devices", "devices_per_driver"),
        ("two-instances", "watches"),
    ],
)
async def test_a_reference_that_did_it_as_the_kep_has_it_would_be_found(name: str, column: str) -> None:
    record = load_record(FOLDER / f"{name}.json")
    assert record.seen
    ours = await play_on_references(record.script, replace(V1_37, **{column: getattr(KEP, column)}), record.seen.times)
    assert compare(ours, record.seen) != []


def test_there_are_records() -> None:
    assert len(RECORDS) > 10
