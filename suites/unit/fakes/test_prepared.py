"""The claims that a driver has prepared: kept in a file that its instances share, and listed by one health API."""

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drahealth.fakes.cluster.api import Object
from drahealth.fakes.hardware.driver import FakeDriver
from drahealth.fakes.hardware.driver_instance import PreparedClaims
from drahealth.proto.events import ReportSent
from drahealth.proto.health_apis import NODE_HEALTH_DRAFT
from drahealth.proto.services import PREPARE, UNPREPARE
from drahealth.proto.values import DeviceHealth, DeviceId, Health, PreparedDevice
from drahealth.suites.unit.fakes.driver_rig import DRIVER, Rig

ADVERTISED: dict[str, Any] = {"health_apis": (NODE_HEALTH_DRAFT.advertised,)}
IDS = st.builds(DeviceId, st.text(), st.text(), st.text())
DEVICES = st.builds(PreparedDevice, IDS, st.lists(st.text()).map(tuple), st.lists(st.text()).map(tuple))
CLAIMS = st.dictionaries(st.text(), st.lists(DEVICES, max_size=3).map(tuple), max_size=4)


def gpu(name: str, *requests: str, cdi: str = "") -> PreparedDevice:
    return PreparedDevice(DeviceId(DRIVER, "node-a", name), requests, (cdi,) if cdi else ())


def reference(claim: Object) -> dict[str, str]:
    return {name: claim["metadata"][name] for name in ("namespace", "name", "uid")}


async def drafted(rig: Rig) -> FakeDriver:
    driver = rig.here(**ADVERTISED)
    await driver.start()
    return driver


# -- the file


@given(CLAIMS)
def test_prepared_claims_are_shared_in_the_folder(claims: dict[str, tuple[PreparedDevice, ...]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        one, other = PreparedClaims(Path(folder)), PreparedClaims(Path(folder))
        for uid, devices in claims.items():
            one.add(uid, devices)
        assert other.all() == claims
        for uid in claims:
            other.remove(uid)
        assert one.all() == {}


@given(st.binary(max_size=40) | st.sampled_from([b"null", b"[]", b'{"a": 1}', b'{"a": [{}]}', b'{"a": [null]}']))
def test_invalid_file_is_read_as_empty(content: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "prepared.json").write_bytes(content)
        claims = PreparedClaims(Path(folder))
        assert claims.all() == {}
        claims.add("uid", [gpu("gpu-0")])
        assert claims.all() == {"uid": (gpu("gpu-0"),)}


def test_shared_device_is_listed_once_with_requests_of_both_claims(tmp_path: Path) -> None:
    claims = PreparedClaims(tmp_path)
    claims.add("a", [gpu("gpu-0", "one", cdi="x"), gpu("gpu-1", "one")])
    claims.add("b", [gpu("gpu-0", "two", "one", cdi="x")])
    assert list(claims.devices().values()) == [gpu("gpu-0", "one", "two", cdi="x"), gpu("gpu-1", "one")]


def test_removing_an_unprepared_claim_writes_nothing(tmp_path: Path) -> None:
    PreparedClaims(tmp_path / "there is no such folder").remove("uid")
    assert list(tmp_path.iterdir()) == []


# -- the driver


async def test_only_prepared_devices_are_listed_and_a_list_follows_each_preparation_and_its_end(rig: Rig) -> None:
    driver = await drafted(rig)
    claim = await rig.claim("gpu-1")
    async with rig.watch(driver, NODE_HEALTH_DRAFT) as stream:
        assert await stream.report() == ()
        await rig.call(PREPARE["v1.DRAPlugin"], claims=[reference(claim)])
        listed = NODE_HEALTH_DRAFT.method.response.FromString(await stream.raw())
        await rig.call(UNPREPARE["v1.DRAPlugin"], claims=[reference(claim)])
        assert await stream.report() == ()
    (device,) = listed.devices
    assert (device.device_name, list(device.request_names), list(device.cdi_device_ids), device.health) == (
        "gpu-1",
        ["gpu"],
        [f"{DRIVER}/gpu=gpu-1"],
        "Healthy",
    )
    said = DeviceHealth("node-a", "gpu-1", Health.HEALTHY)
    assert [event.devices for event in rig.happened(ReportSent)] == [(), (said,), ()]


async def test_preparation_sends_no_report_on_other_health_apis(rig: Rig) -> None:
    driver = rig.here()
    await driver.start()
    async with rig.watch(driver) as stream:
        assert len(await stream.report()) == 2
        await rig.call(PREPARE["v1.DRAPlugin"], claims=[reference(await rig.claim("gpu-1"))])
        await driver.set_health("gpu-0", Health.UNHEALTHY)
        assert await stream.shows() == {"gpu-0": "Unhealthy", "gpu-1": "Healthy"}


async def test_silenced_driver_sends_no_report_after_a_preparation(rig: Rig) -> None:
    driver = await drafted(rig)
    await driver.stream_silence()
    async with rig.watch(driver, NODE_HEALTH_DRAFT) as stream:
        await rig.call(PREPARE["v1.DRAPlugin"], claims=[reference(await rig.claim("gpu-0", "gpu-1"))])
        await driver.report([DeviceHealth("node-a", "gpu-9", Health.UNHEALTHY)])
        assert await stream.shows() == {"gpu-9": "Unhealthy"}


@pytest.mark.parametrize("end", ["crash", "stop"])
async def test_newer_instance_lists_claims_prepared_by_the_older_one(rig: Rig, end: str) -> None:
    older = await drafted(rig)
    await rig.call(PREPARE["v1.DRAPlugin"], claims=[reference(await rig.claim("gpu-1"))])
    await getattr(older, end)()
    newer = await drafted(rig)
    async with rig.watch(newer, NODE_HEALTH_DRAFT) as stream:
        assert await stream.shows() == {"gpu-1": "Healthy"}


async def test_last_instance_deletes_the_file(rig: Rig, tmp_path: Path) -> None:
    folder = tmp_path / "made"
    older, newer = [rig.here(instance=name, data_dir=str(folder)) for name in ("old", "new")]
    await older.start()
    await newer.start()
    claims = [reference(await rig.claim("gpu-1"))]
    await rig.call(PREPARE["v1.DRAPlugin"], str(folder / "dra-new.sock"), claims=claims)
    await older.retire()
    assert len((await newer.state()).prepared) == 1
    await newer.retire()
    assert not folder.exists()
