"""The reference matches the recorded kubelets for the scripts in suites/unit/differential/recorded."""

from dataclasses import replace
from pathlib import Path

import pytest

from differential.comparison import compare, uncertainty
from differential.script import load_record
from differential.subjects import play_on_references
from drahealth.manager.profile import KEP
from drahealth.manager.releases import NEWEST, for_release

FOLDER = Path(__file__).with_name("recorded")
RECORDS = sorted(FOLDER.glob("*.json"))


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.stem)
async def test_the_reference_matches_the_recorded_kubelet(path: Path) -> None:
    record = load_record(path)
    profile = for_release(record.kubernetes)
    assert record.seen
    assert profile
    ours = await play_on_references(record.script, profile, record.seen.times)
    doubtful = uncertainty(record.script, record.seen.times)
    differences = compare(ours, record.seen)
    assert [str(d) for d in differences if not doubtful.covers(d.step, d.moment)] == []


FOUND_BY = {
    "a-device-twice-in-a-report": "named_twice",
    "invalid-message": "device_id",
    "unknown-health-number": "device_id",
    "heartbeats-notify-no-pods": "device_id",
    "message-truncated-inside-a-character": "message_cut",
    "names-joined": "names_joined",
    "names-replaced-in-a-full-list": "devices_per_driver",
    "device-plugin-lists": "unlisted_device",
    "empty-and-long-names": "whole_claim",
    "one-id-for-two-devices": "duplicate_id_shows",
    "rejected-pod-is-not-deleted": "message_cut",
    "report-over-4-mib": "largest_report",
    "restart-of-the-kubelet": "device_id",
    "stale-device-recovers": "recovery_notifies",
    "stream-ends": "device_id",
    "timeout-wraps": "timeouts_wrap",
    "too-many-devices": "devices_per_driver",
    "two-device-plugins": "resource_plugins",
    "two-instances": "watches",
}
"""The field of the profile by which each record distinguishes the KEP from the release."""

NOTHING_SHOWS = {"no-devices-returned"}
"""Records in which pods show no devices. No field of a profile changes that (P-09)."""


@pytest.mark.parametrize(("name", "column"), FOUND_BY.items(), ids=FOUND_BY)
async def test_reference_with_a_kep_rule_differs_from_the_record(name: str, column: str) -> None:
    record = load_record(FOLDER / f"{name}.json")
    assert record.seen
    ours = await play_on_references(record.script, replace(NEWEST, **{column: getattr(KEP, column)}), record.seen.times)
    assert compare(ours, record.seen) != []


def test_every_record_distinguishes_two_references() -> None:
    assert {path.stem for path in RECORDS} == FOUND_BY.keys() | NOTHING_SHOWS
