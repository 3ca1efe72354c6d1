"""Manager files with errors at any place: valid entries are kept, and each file causes one log line."""

import copy
import json
import logging
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drahealth.manager.allocations import Allocation, dump_allocations, load_allocations
from drahealth.manager.cache import HealthCache
from drahealth.manager.checkpoint import Checkpoint, dump_claims, health_text, load_claims, load_health
from drahealth.manager.profile import KEP
from drahealth.manager.registration import find_sockets
from drahealth.proto.values import DeviceId, Grant

NOW, WALL = 100.0, 1_750_000_000.0
DEVICE = {"Health": "Unhealthy", "LastUpdated": "2025-06-15T15:06:30Z", "HealthCheckTimeout": 10**9, "Message": "xid"}
HEALTH: dict[str, Any] = {
    driver: {
        "Devices": {
            f"node-a/{name}": {"PoolName": "node-a", "DeviceName": name, **DEVICE} for name in ("gpu-0", "gpu-1")
        }
    }
    for driver in ("gpu.example.com", "nic.example.com")
}
PREPARED: dict[str, Any] = {"driver": "gpu.example.com", "pool": "node-a", "device": "gpu-0"}
PREPARED |= {"requests": ["gpu"], "cdiIDs": ["x=0"], "shareID": "s"}
CLAIM = {"namespace": "default", "drivers": ["gpu.example.com"], "pods": ["pod"], "complete": True}
CLAIMS = {"claims": [{"name": f"claim-{uid}", "uid": uid, **CLAIM, "devices": [PREPARED]} for uid in ("a", "b")]}
HELD = [Allocation(pod, "main", "example.com/gpu", ("gpu-0",), Grant(cdi_devices=("x=0",))) for pod in ("a", "b")]
ALLOCATIONS = json.loads(json.dumps(dump_allocations(HELD, ["example.com/gpu"])))
FILES: dict[str, Any] = {"health": HEALTH, "claims": CLAIMS, "allocations": ALLOCATIONS}

WRONG: list[Any] = [
    None,
    True,
    7,
    -1,
    2.5,
    1e999,
    10**310,
    "",
    "\ud800",
    "x" * 10_000,
    "a\nb",
    [],
    [None],
    {},
    {"": {}},
]
"""What stands at a place instead."""


def take(name: str, path: Path) -> set[Any]:
    """Loads the file, writes what was loaded again, and gives it."""
    data = Checkpoint(path).read()
    if name == "health":
        cache = HealthCache(KEP)
        cache.restore(load_health(data, NOW, WALL))
        for driver, devices in cache.devices().items():
            health_text(driver, devices, NOW, WALL)
        return {device for device, _ in cache.entries()}
    if name == "claims":
        claims = list(load_claims(data))
        json.dumps(dump_claims(claims)).encode()
        return {claim.ref.uid for claim in claims}
    allocations, resources = load_allocations(data)
    json.dumps(dump_allocations(allocations, resources)).encode()
    return {allocation.pod_uid for allocation in allocations}


@pytest.fixture(autouse=True)
def lines_are_lines(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    yield
    said = [record.getMessage() for record in caplog.get_records("call")]
    assert [line for line in said if not line.isprintable() or len(line) > 1000] == []


def places(data: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The way to every part of a JSON value."""
    yield above
    parts = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, part in parts:
        yield from places(part, (*above, key))


def replaced(data: Any, place: tuple[Any, ...], value: Any) -> Any:
    if not place:
        return value
    changed = copy.copy(data)
    changed[place[0]] = replaced(data[place[0]], place[1:], value)
    return changed


@pytest.mark.parametrize("name", FILES)
def test_truncated_file_reads_as_empty_and_is_logged_once(
    name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    whole = json.dumps(FILES[name]).encode()
    path = tmp_path / "state"
    for end in range(len(whole)):
        path.write_bytes(whole[:end])
        caplog.clear()
        assert Checkpoint(path).read() == {}
        assert len(caplog.records) == 1


def kept(name: str, place: tuple[Any, ...]) -> set[Any]:
    """What is not below the place: it may not be lost, whatever stands there."""
    health = {
        DeviceId(driver, "node-a", device["DeviceName"])
        for driver, state in HEALTH.items()
        for key, device in state["Devices"].items()
        if place[:1] not in ((), (driver,)) or (len(place) > 2 and place[2] != key)
    }
    if name == "health":
        return health
    if place[:1] == ("resources",):
        return {"a", "b"}
    return {uid for number, uid in enumerate("ab") if len(place) > 1 and place[1] != number}


@pytest.mark.parametrize("name", FILES)
def test_invalid_value_at_any_place_keeps_the_other_entries(
    name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "state"
    for place in places(FILES[name]):
        for wrong in WRONG:
            path.write_text(json.dumps(replaced(FILES[name], place, wrong)))
            caplog.clear()
            assert take(name, path) >= kept(name, place), (place, wrong)
            assert len(caplog.records) <= 2


@given(name=st.sampled_from(sorted(FILES)), edits=st.lists(st.tuples(st.integers(0, 2000), st.binary(max_size=3))))
def test_file_with_any_changed_bytes_loads_without_an_error(name: str, edits: list[tuple[int, bytes]]) -> None:
    content = bytearray(json.dumps(FILES[name]).encode())
    for at, new in edits:
        content[at : at + len(new)] = new
    logging.disable()
    try:
        with tempfile.NamedTemporaryFile() as file:
            file.write(content)
            file.flush()
            take(name, Path(file.name))
    finally:
        logging.disable(logging.NOTSET)


NAMES = st.binary(min_size=1, max_size=20).filter(lambda name: not {0, 47} & set(name) and name not in (b".", b".."))


@given(st.dictionaries(NAMES, st.sampled_from(["file", "folder", "pipe", "link", "loop", "shut"]), max_size=6))
def test_find_sockets_ignores_everything_but_sockets(contents: dict[bytes, str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for name, kind in contents.items():
            path = Path(folder) / os.fsdecode(name)
            match kind:
                case "file":
                    path.touch()
                case "folder" | "shut":
                    path.mkdir(0o000 if kind == "shut" else 0o700)
                case "pipe":
                    os.mkfifo(path)
                case "link":
                    path.symlink_to("/nowhere")
                case "loop":
                    path.symlink_to(folder)
        assert list(find_sockets(Path(folder))) == []
