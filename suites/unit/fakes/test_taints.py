"""Device taints of a driver, controlled in this process or over a stream."""

import asyncio
from collections.abc import Awaitable, Callable
from collections.abc import Set as AbstractSet
from contextlib import aclosing

import pytest

from drahealth.fakes.clock import JumpClock
from drahealth.fakes.cluster.api import SLICES, ApiError, Kind, Object
from drahealth.fakes.cluster.api_server.server import ApiServer
from drahealth.fakes.control.fake_options import DriverControl
from drahealth.fakes.control.remote import ControlFailed
from drahealth.fakes.control.taint import Taint
from drahealth.proto.values import Health
from drahealth.suites.unit.endings import PATIENCE
from drahealth.suites.unit.expected_errors import api_error
from drahealth.suites.unit.fakes.driver_rig import DRIVER, Rig

KEY = "example.com/unhealthy"


async def published(rig: Rig) -> dict[str, list[dict[str, str]]]:
    """The taints of each device, without the time that the API server adds."""
    devices = [device for one in await rig.api.list(SLICES) for device in one["spec"]["devices"]]
    return {
        device["name"]: [
            {key: value for key, value in taint.items() if key != "timeAdded"} for taint in device.get("taints", ())
        ]
        for device in devices
    }


async def test_taint_is_published_until_it_is_removed(driver: DriverControl, rig: Rig) -> None:
    await driver.taint("gpu-1", KEY, "xid-79")
    assert await published(rig) == {"gpu-0": [], "gpu-1": [{"key": KEY, "value": "xid-79", "effect": "NoSchedule"}]}
    await driver.untaint("gpu-1", KEY)
    assert await published(rig) == {"gpu-0": [], "gpu-1": []}


async def test_the_api_server_adds_the_time_of_a_taint_that_an_update_leaves_out() -> None:
    clock = JumpClock()
    api = ApiServer(clock=clock)
    pool = {"name": "n", "generation": 1, "resourceSliceCount": 1}
    taint = {"key": KEY, "effect": "NoSchedule"}
    spec = {"driver": DRIVER, "nodeName": "n", "pool": pool, "devices": [{"name": "gpu-0", "taints": [taint]}]}

    def time_of(found: Object) -> str:
        return str(found["spec"]["devices"][0]["taints"][0]["timeAdded"])

    created = await api.create(SLICES, {"metadata": {"name": "a"}, "spec": spec})
    await clock.sleep(5)
    kept = await api.replace(SLICES, created)
    again = await api.replace(SLICES, {**kept, "spec": spec})
    assert (time_of(kept), time_of(again)) == (time_of(created), api.time())
    assert time_of(created) < time_of(again)


async def test_a_driver_keeps_the_time_of_a_taint_when_another_one_is_added(driver: DriverControl, rig: Rig) -> None:
    async def times() -> list[str]:
        (found,) = await rig.api.list(SLICES)
        return [taint["timeAdded"] for device in found["spec"]["devices"] for taint in device.get("taints", ())]

    await driver.taint("gpu-0", KEY)
    first = await times()
    await rig.clock.sleep(5)
    await driver.taint("gpu-1", KEY)
    assert ((await times())[0], len(set(await times()))) == (first[0], 2)


async def test_a_taint_takes_the_place_of_one_with_its_key_and_effect(driver: DriverControl, rig: Rig) -> None:
    for value, effect in (("a", "NoSchedule"), ("b", "NoExecute"), ("c", "NoSchedule")):
        await driver.taint("gpu-0", KEY, value, effect)
    assert (await driver.state()).taints == {"gpu-0": (Taint(KEY, "b", "NoExecute"), Taint(KEY, "c"))}
    await driver.untaint("gpu-0", KEY, "NoExecute")
    assert (await driver.state()).taints == {"gpu-0": (Taint(KEY, "c"),)}
    await driver.reset()
    assert (await driver.state()).taints == {}


async def test_a_driver_that_is_not_running_publishes_its_taints_when_it_starts(
    driver: DriverControl, rig: Rig
) -> None:
    await driver.stop()
    await driver.taint("gpu-0", KEY)
    await driver.start()
    assert await published(rig) == {"gpu-0": [{"key": KEY, "effect": "NoSchedule"}], "gpu-1": []}


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (lambda driver: driver.taint("gpu-7", KEY), "gpu-7"),
        (lambda driver: driver.untaint("gpu-7", KEY), "gpu-7"),
        (lambda driver: driver.taint("gpu-0", ""), "a taint key must look like example.com/unhealthy, got ''"),
        (lambda driver: driver.taint("gpu-0", KEY, "two words"), "a taint value must be letters, digits"),
        (
            lambda driver: driver.taint("gpu-0", KEY, "", "NoEntry"),
            "a taint effect must be one of None, NoSchedule, NoExecute, got 'NoEntry'",
        ),
    ],
)
async def test_invalid_taint_is_rejected_and_changes_nothing(
    driver: DriverControl, call: Callable[[DriverControl], Awaitable[None]], reason: str
) -> None:
    with pytest.raises((ValueError, ControlFailed), match=reason):
        await call(driver)
    assert (await driver.state()).taints == {}


class NoTaints(ApiServer):
    """Refuses devices with taints, while it does: all, or those with some keys."""

    refuses = True
    refused_keys: AbstractSet[str] = frozenset()

    async def create(self, kind: Kind, obj: Object) -> Object:
        self._check(obj)
        return await super().create(kind, obj)

    async def replace(self, kind: Kind, obj: Object) -> Object:
        await asyncio.sleep(0)  # it takes a while
        self._check(obj)
        return await super().replace(kind, obj)

    def _check(self, obj: Object) -> None:
        keys = {taint["key"] for device in obj["spec"].get("devices", []) for taint in device.get("taints", [])}
        if self.refuses and (keys & self.refused_keys if self.refused_keys else keys):
            raise ApiError(422, "Invalid", "no taints here")


async def test_rejected_taint_is_an_error_and_changes_nothing(rig: Rig) -> None:
    api = rig.api = NoTaints()
    driver = rig.here(devices=tuple(f"gpu-{number}" for number in range(2)))
    await driver.start()
    with api_error(422, "Invalid"):
        await driver.taint("gpu-0", KEY)
    assert ((await driver.state()).taints, await published(rig)) == ({}, {"gpu-0": [], "gpu-1": []})
    api.refuses = False
    await driver.taint("gpu-1", KEY)
    assert await published(rig) == {"gpu-0": [], "gpu-1": [{"key": KEY, "effect": "NoSchedule"}]}


@pytest.mark.parametrize("refused", ["both", "the first"])
async def test_concurrent_taints_keep_only_the_accepted_ones(rig: Rig, refused: str) -> None:
    api = rig.api = NoTaints()
    api.refused_keys = {"example.com/a", "example.com/b"} if refused == "both" else {"example.com/a"}
    driver = rig.here()
    await driver.start()
    told = (driver.taint("gpu-0", "example.com/a"), driver.taint("gpu-1", "example.com/b"))
    async with asyncio.timeout(PATIENCE):
        outcomes = await asyncio.gather(*told, return_exceptions=True)
    left = {} if refused == "both" else {"gpu-1": (Taint("example.com/b"),)}
    assert ([isinstance(outcome, ApiError) for outcome in outcomes]) == [True, refused == "both"]
    assert (await driver.state()).taints == left


class NoSlices(ApiServer):
    """Refuses all."""

    async def create(self, kind: Kind, obj: Object) -> Object:
        raise ApiError(403, "Forbidden", "resourceslices is forbidden")


class Dropping(ApiServer):
    """Does not know taints, as one whose feature gate is off."""

    async def create(self, kind: Kind, obj: Object) -> Object:
        return await super().create(kind, _without_taints(obj))

    async def replace(self, kind: Kind, obj: Object) -> Object:
        return await super().replace(kind, _without_taints(obj))


def _without_taints(obj: Object) -> Object:
    known = [{k: v for k, v in device.items() if k != "taints"} for device in obj["spec"].get("devices", [])]
    return {**obj, "spec": {**obj["spec"], "devices": known}}


async def test_a_taint_that_the_api_server_drops_is_an_error(rig: Rig) -> None:
    rig.api = Dropping()
    driver = rig.here()
    await driver.start()
    with pytest.raises(ValueError, match="dropped taints"):
        await driver.taint("gpu-0", KEY)
    assert (await driver.state()).taints == {}


@pytest.mark.parametrize("server", [NoTaints, Dropping])
async def test_taint_rejected_at_the_start_is_dropped_and_logged(
    rig: Rig, caplog: pytest.LogCaptureFixture, server: type[ApiServer]
) -> None:
    rig.api = server()
    driver = rig.here()
    await driver.taint("gpu-0", KEY)
    await driver.start()
    assert ((await driver.state()).taints, await published(rig)) == ({}, {"gpu-0": [], "gpu-1": []})
    assert (
        f"driver {DRIVER} starts without taint {KEY}:NoSchedule of gpu-0, which the API server rejected" in caplog.text
    )


async def test_taints_that_were_published_before_are_kept_beside_one_that_is_dropped(rig: Rig) -> None:
    api = rig.api = NoTaints()
    api.refused_keys = {"example.com/refused"}
    driver = rig.here()
    await driver.start()
    await driver.taint("gpu-0", KEY)
    await driver.stop()
    await driver.taint("gpu-0", "example.com/refused")
    await driver.start()
    assert (await driver.state()).taints == {"gpu-0": (Taint(KEY),)}


async def test_driver_without_publish_permission_fails_to_start_and_keeps_taints(rig: Rig) -> None:
    rig.api = NoSlices()
    driver = rig.here()
    await driver.taint("gpu-0", KEY)
    with api_error(403, "Forbidden"):
        await driver.start()
    assert ((await driver.state()).taints, (await driver.state()).running) == ({"gpu-0": (Taint(KEY),)}, False)


async def test_taint_set_during_an_outage_is_published_later(rig: Rig) -> None:
    driver = rig.here()
    await driver.start()
    rig.api.down()
    await driver.taint("gpu-0", KEY)
    rig.api.up()
    rig.clock.jump(1)
    async with asyncio.timeout(PATIENCE), aclosing(rig.api.watch(SLICES)) as changes:
        while not (await anext(changes)).object["spec"]["devices"][0].get("taints"):
            pass
    assert (await driver.state()).taints == {"gpu-0": (Taint(KEY),)}


async def test_slices_with_taints_keep_the_device_limit_of_the_api(rig: Rig) -> None:
    driver = rig.here(devices=tuple(f"gpu-{number}" for number in range(100)))
    await driver.start()
    await driver.taint("gpu-99", KEY)
    assert [count for *_, count in await rig.slices()] == [64, 36]


async def test_a_device_has_the_taint_of_the_options_while_it_is_unhealthy(rig: Rig) -> None:
    driver = rig.here(unhealthy_taint=f"{KEY}:NoExecute")
    await driver.start()
    await driver.taint("gpu-0", "example.com/other")
    await driver.inject("xid/79", "gpu-1")
    await until_published(rig, {"gpu-0": ["example.com/other"], "gpu-1": [KEY]})
    await driver.restart()
    await until_published(rig, {"gpu-0": ["example.com/other"], "gpu-1": [KEY]})
    await driver.set_health("gpu-1", Health.UNKNOWN)
    await until_published(rig, {"gpu-0": ["example.com/other"], "gpu-1": []})


async def until_published(rig: Rig, keys: dict[str, list[str]]) -> None:
    """Waits until the devices have taints with these keys."""
    async with asyncio.timeout(PATIENCE), aclosing(rig.api.watch(SLICES)) as changes:
        async for change in changes:
            devices = change.object["spec"]["devices"]
            if {one["name"]: [taint["key"] for taint in one.get("taints", ())] for one in devices} == keys:
                return


@pytest.mark.parametrize("key", ["a..b/x", "a-/x", "A.com/x", "/x", "a.com/", f"{'a' * 254}/x", f"a.com/{'x' * 64}"])
def test_taint_key_that_kubernetes_refuses_is_rejected(key: str) -> None:
    with pytest.raises(ValueError, match=r"a taint key must look like example\.com/unhealthy"):
        Taint(key)


async def test_a_taint_of_the_options_must_be_a_taint(rig: Rig) -> None:
    with pytest.raises(ValueError, match=r"a taint key must look like example\.com/unhealthy"):
        rig.options(unhealthy_taint="no label!")
