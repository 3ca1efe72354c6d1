"""Checkpoint files of the manager: format, and effect of broken files."""

import json
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drahealth.manager.cache import Entry, Name
from drahealth.manager.checkpoint import Checkpoint, dump_claims, health_text, load_claims, load_health
from drahealth.manager.claims import PreparedClaim
from drahealth.proto.values import ClaimRef, DeviceId, Health, PreparedDevice

WALL = 1_750_000_000.0  # 2025-06-15T15:06:40Z
A, B = DeviceId("gpu.example.com", "node-a", "gpu-0"), DeviceId("gpu.example.com", "node-a", "gpu-1")
GOOD = {
    "PoolName": "node-a",
    "DeviceName": "gpu-0",
    "Health": "Unhealthy",
    "LastUpdated": "2025-06-15T17:06:30.123456789+02:00",
    "HealthCheckTimeout": 5_000_000_000,
    "Message": "xid 79",
}
CLAIM = PreparedClaim(
    ClaimRef("default", "gpus", "uid-1"),
    ("gpu.example.com", "nic.example.com"),
    (PreparedDevice(A, ("big",), ("vendor/gpu=0",), "share-1"), PreparedDevice(B)),
    {"pod-b", "pod-a"},
)
NAME = st.text(max_size=3) | st.text("a/%", max_size=4)
NAMES = st.builds(DeviceId, NAME, NAME, NAME)
ENTRIES = st.builds(
    Entry, st.sampled_from(Health), st.text(max_size=5), st.integers(1, 10**6).map(float), st.integers(-999, 0)
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3) | st.just("\ud800"),
    lambda parts: st.lists(parts, max_size=3) | st.dictionaries(st.text(max_size=3), parts, max_size=3),
    max_leaves=8,
)


def dump_health(entries: Iterable[tuple[DeviceId, Entry]], now: float, wall: float) -> Any:
    """What the health file says of these devices."""
    drivers: dict[str, dict[Name, Entry]] = {}
    for device, entry in entries:
        drivers.setdefault(device.driver, {})[device.pool, device.device] = entry
    texts = [health_text(driver, devices, now, wall) for driver, devices in drivers.items()]
    return json.loads(b"{" + b",".join(texts) + b"}")


def loaded(*devices: Any, driver: str = "gpu.example.com") -> dict[DeviceId, Entry]:
    """The entries of a health file that holds these devices."""
    data = {driver: {"Devices": {str(number): device for number, device in enumerate(devices)}}}
    return dict(load_health(data, now=100.0, wall=WALL))


@pytest.fixture
def file(tmp_path: Path) -> Checkpoint:
    return Checkpoint(tmp_path / "state")


def beside(file: Checkpoint) -> list[str]:
    """All that lies in the file's directory."""
    return [path.name for path in file.path.parent.iterdir()]


def errors(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]


# -- the file


@pytest.mark.counterpart("alpha2/persistence")
@given(data=st.dictionaries(st.text(), st.recursive(st.text() | st.integers(), lambda x: st.lists(x, max_size=3))))
def test_written_checkpoint_is_read_back(tmp_path_factory: pytest.TempPathFactory, data: dict[str, Any]) -> None:
    file = Checkpoint(tmp_path_factory.getbasetemp() / "written")
    file.write(data)
    assert file.read() == data


def test_write_replaces_the_file_atomically_with_mode_0600(file: Checkpoint) -> None:
    file.write({"old": "x" * 1000})
    with file.path.open() as reader:
        file.write({"new": 1})
        assert json.load(reader) == {"old": "x" * 1000}
    assert (file.path.read_text(), file.path.stat().st_mode & 0o777) == ('{"new":1}', 0o600)
    assert beside(file) == ["state"]


@pytest.mark.counterpart("kep/cache-initialization", "alpha2/cache-initialization", "TestNewHealthInfoCache")
def test_missing_file_is_an_empty_checkpoint_without_a_warning(
    file: Checkpoint, caplog: pytest.LogCaptureFixture
) -> None:
    assert (file.read(), errors(caplog)) == ({}, [])


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"null",
        b"[]",
        b'"text"',
        b'{"gpu":{"Devices"',
        b"\xff\xfe\xfd",
        b"\x00" * 9,
        b"[" * 100_000,
        b'{"a":' + b"9" * 5000,
    ],
    ids=["empty", "null", "list", "text", "truncated", "no text", "zeros", "deep", "a number without end"],
)
def test_unusable_file_reads_as_empty_and_is_logged_once(
    file: Checkpoint, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    file.path.write_bytes(content)
    assert file.read() == {}
    (line,) = errors(caplog)
    assert line.startswith("checkpoint state ")
    assert line.count("starting empty") == 1


@given(content=st.binary() | JSON.map(lambda data: json.dumps(data).encode()))
def test_any_content_reads_as_an_object(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "any"
    path.write_bytes(content)
    assert isinstance(Checkpoint(path).read(), dict)


def test_directory_at_the_file_path_is_logged_and_not_replaced(
    file: Checkpoint, caplog: pytest.LogCaptureFixture
) -> None:
    file.path.mkdir()
    assert file.read() == {}
    file.write({"a": 1})
    assert (beside(file), len(errors(caplog))) == (["state"], 2)


def test_failed_writes_are_logged_once_until_a_write_succeeds(
    file: Checkpoint, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(2):
        file.path.mkdir()
        file.write({})
        file.write({})
        file.path.rmdir()
        file.write({})
        file.path.unlink()
    assert [line.partition(":")[0] for line in errors(caplog)] == [
        "checkpoint state cannot be written, continuing without it"
    ] * 2


FULL_DISK = """
import logging, pathlib, resource, sys
from drahealth.manager.checkpoint import Checkpoint
logging.basicConfig(format="%(message)s")
file = Checkpoint(pathlib.Path(sys.argv[1]))
file.write({"old": 1})
resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))
for _ in range(3):
    file.write({"new": "x" * 50_000})
"""


def test_full_disk_keeps_the_old_file_and_no_temporary_file(file: Checkpoint) -> None:
    done = subprocess.run([sys.executable, "-c", FULL_DISK, file.path], capture_output=True, text=True, check=True)
    assert done.stderr == "checkpoint state cannot be written, continuing without it: [Errno 27] File too large\n"
    assert (file.read(), beside(file)) == ({"old": 1}, ["state"])


# -- health


@pytest.mark.counterpart("kep/cache-persistence")
def test_health_file_has_the_format_of_a_kubelet() -> None:
    entry = Entry(Health.UNHEALTHY, "xid 79", 5.0, 90.0)
    assert dump_health([(A, entry)], now=100.0, wall=WALL) == {
        "gpu.example.com": {
            "Devices": {
                "node-a/gpu-0": {**GOOD, "LastUpdated": "2025-06-15T15:06:30+00:00"},
            }
        }
    }


@pytest.mark.counterpart("kep/cache-persistence", "alpha2/persistence")
@given(st.dictionaries(NAMES, ENTRIES, max_size=4))
def test_health_is_restored_from_the_file(entries: dict[DeviceId, Entry]) -> None:
    data = dump_health(entries.items(), now=0.0, wall=WALL)
    assert dict(load_health(data, now=0.0, wall=WALL)) == entries


def test_devices_with_slashes_in_names_stay_separate_in_the_file() -> None:
    names = [("a/b", "c"), ("a", "b/c"), ("a", "b%2Fc"), ("a/b%2Fc", ""), ("", "a/b/c")]
    entries = {DeviceId("d", *name): Entry(Health.HEALTHY, str(name), 30.0, 0.0) for name in names}
    assert dict(load_health(dump_health(entries.items(), 0.0, WALL), 0.0, WALL)) == entries


def test_a_kubelets_entry_is_read_with_its_age() -> None:
    (entry,) = loaded(GOOD).values()
    assert (entry.health, entry.message, entry.timeout) == (Health.UNHEALTHY, "xid 79", 5.0)
    assert entry.updated == pytest.approx(90.123456, abs=1e-5)


def test_entries_of_older_kubelets_lack_timeout_and_message() -> None:
    old = {key: GOOD[key] for key in ("PoolName", "DeviceName", "Health")}
    assert loaded({**old, "LastUpdated": "2025-06-15T15:06:40Z"}) == {A: Entry(Health.UNHEALTHY, "", 30.0, 100.0)}


def test_devices_given_as_a_list_are_read(caplog: pytest.LogCaptureFixture) -> None:
    data = {A.driver: {"Devices": [GOOD, {**GOOD, "DeviceName": "gpu-1"}, {**GOOD, "Health": "Sick"}]}}
    assert dict(load_health(data, now=100.0, wall=WALL)) == loaded(GOOD, {**GOOD, "DeviceName": "gpu-1"})
    assert errors(caplog) == ["checkpoint: ignoring 1 devices of driver 'gpu.example.com'"]


@pytest.mark.parametrize("timeout", [0, -1])
def test_an_entry_without_a_timeout_of_its_own_has_the_default(timeout: int) -> None:
    assert [entry.timeout for entry in loaded({**GOOD, "HealthCheckTimeout": timeout}).values()] == [30.0]


def test_entry_from_the_future_is_read_as_updated_now() -> None:
    assert [entry.updated for entry in loaded({**GOOD, "LastUpdated": "2099-01-01T00:00:00Z"}).values()] == [100.0]


WRONG_FIELDS: dict[str, list[Any]] = {
    "PoolName": [None, 7, ["node-a"], "\ud800"],
    "DeviceName": [None, {}, "\udfff"],
    "Message": [None, 7, "\ud800"],
    "Health": [None, "", "Sick", 1, [], "healthy"],
    "LastUpdated": [None, 7, "", "yesterday", "2025-06-15T15:06:40", "9" * 30],
    "HealthCheckTimeout": [None, "5s", True, 1.5, float("inf"), float("nan"), 2**63, 10**310, 10**400, []],
}


@pytest.mark.parametrize(("key", "value"), [(key, value) for key, values in WRONG_FIELDS.items() for value in values])
def test_only_the_entry_with_an_invalid_field_is_ignored(
    key: str, value: Any, caplog: pytest.LogCaptureFixture
) -> None:
    assert loaded({**GOOD, key: value}, {**GOOD, "DeviceName": "gpu-1"}).keys() == {B}
    assert errors(caplog) == ["checkpoint: ignoring 1 devices of driver 'gpu.example.com'"]


@pytest.mark.parametrize("missing", ["PoolName", "DeviceName", "Health", "LastUpdated"])
def test_only_the_entry_with_a_missing_field_is_ignored(missing: str) -> None:
    partial = {key: value for key, value in GOOD.items() if key != missing}
    assert loaded(partial, {**GOOD, "DeviceName": "gpu-1"}).keys() == {B}


@pytest.mark.parametrize("device", [None, 7, "text", [], [GOOD], {}], ids=repr)
def test_only_the_invalid_device_entry_is_ignored(device: Any) -> None:
    assert loaded(device, GOOD).keys() == {A}


@pytest.mark.parametrize("state", [None, 7, [], {}, {"Devices": None}, {"Devices": "all"}], ids=repr)
def test_only_the_driver_with_invalid_devices_is_ignored(state: Any, caplog: pytest.LogCaptureFixture) -> None:
    data = {"broken.example.com": state, "gpu.example.com": {"Devices": {"a": GOOD}}}
    assert dict(load_health(data, 0, WALL)).keys() == {A}
    assert errors(caplog) == ["checkpoint: ignoring the entry of driver 'broken.example.com'"]


@given(key=st.sampled_from([*GOOD, "Other"]), value=JSON, driver=st.sampled_from(["gpu.example.com", "\ud800"]))
def test_valid_entry_is_kept_and_written_beside_any_invalid_entry(key: str, value: Any, driver: str) -> None:
    entries = loaded(value, {**GOOD, "DeviceName": "odd", key: value}, GOOD, driver=driver)
    assert (A in entries) == (driver == A.driver)
    dump_health(entries.items(), 0.0, WALL)
    assert all(str(device).encode() and entry.message.encode() is not None for device, entry in entries.items())


@pytest.mark.parametrize("time", ["0001-01-01T00:00:00Z", "0001-01-01T00:00:00+14:00", "1969-07-20T20:17:40Z"])
def test_time_before_1970_is_written_as_the_unix_epoch(time: str) -> None:
    (entry,) = dump_health(loaded({**GOOD, "LastUpdated": time}).items(), 0.0, WALL)["gpu.example.com"][
        "Devices"
    ].values()
    assert entry["LastUpdated"] == "1970-01-01T00:00:00+00:00"


def test_values_beyond_the_kubelet_limits_are_clamped() -> None:
    (entry,) = dump_health([(A, Entry(Health.HEALTHY, "", 2.0**63, 0.0))], 0.0, 1e15)["gpu.example.com"][
        "Devices"
    ].values()
    assert (entry["HealthCheckTimeout"], entry["LastUpdated"][:10]) == (2**63 - 1, "9999-12-31")


# -- claims


def test_the_claims_file_lists_each_claim_with_its_pods_and_devices() -> None:
    assert dump_claims([CLAIM])["claims"][0]["pods"] == ["pod-a", "pod-b"]
    assert list(load_claims(json.loads(json.dumps(dump_claims([CLAIM]))))) == [CLAIM]


WRONG_PARTS: dict[str, list[Any]] = {
    "uid": [None, 7, "\ud800"],
    "namespace": [None, ["default"]],
    "name": [None, {}],
    "drivers": [None, "gpu.example.com", [7], {"a": 1}],
    "pods": [None, "pod-a", [None], {"a": 1}],
    "complete": [None, 1, "true"],
    "devices": [None, "text", {}, [7], [{}], [{"driver": "d"}]],
}


@pytest.mark.parametrize(("key", "value"), [(key, value) for key, values in WRONG_PARTS.items() for value in values])
def test_only_the_claim_with_an_invalid_field_is_ignored(
    key: str, value: Any, caplog: pytest.LogCaptureFixture
) -> None:
    (good,) = dump_claims([CLAIM])["claims"]
    assert list(load_claims({"claims": [{**good, key: value}, good]})) == [CLAIM]
    assert [line.partition(":")[0] for line in errors(caplog)] == ["checkpoint"]


@pytest.mark.parametrize(
    ("key", "value"),
    [("driver", None), ("pool", 7), ("device", "\ud800"), ("requests", "big"), ("cdiIDs", [7]), ("shareID", 7)],
)
def test_only_the_claim_with_an_invalid_device_is_ignored(key: str, value: Any) -> None:
    (good,) = dump_claims([CLAIM])["claims"]
    bad = {**good, "devices": [{**good["devices"][0], key: value}]}
    assert list(load_claims({"claims": [bad, good]})) == [CLAIM]


@pytest.mark.parametrize("data", [{"claims": None}, {"claims": {}}, {"kind": "DRACheckpoint"}], ids=repr)
def test_claims_file_with_invalid_structure_is_empty_and_logged(data: Any, caplog: pytest.LogCaptureFixture) -> None:
    assert (list(load_claims(data)), errors(caplog)) == (
        [],
        ["checkpoint: claims must be a list, starting without claims"],
    )


@given(JSON, st.sampled_from(sorted(dump_claims([CLAIM])["claims"][0])))
def test_valid_claim_is_kept_beside_any_invalid_claim(value: Any, key: str) -> None:
    (good,) = dump_claims([CLAIM])["claims"]
    assert CLAIM in list(load_claims({"claims": [value, {**good, "uid": "odd", key: value}, good]}))
