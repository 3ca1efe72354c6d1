"""The devices of a fake device plugin with faults of a catalogue."""

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drahealth.fakes.control.commands import Attempt
from drahealth.fakes.control.fake_options import PluginControl, PluginOptions
from drahealth.fakes.control.remote import ControlFailed
from drahealth.fakes.control.replies import ListedDevice
from drahealth.fakes.hardware.device_plugin import FakeDevicePlugin
from drahealth.fakes.hardware.devices import plugin_options
from drahealth.fakes.hardware.failing import DeviceState
from drahealth.fakes.hardware.plugin_list import MAX_RESPONSES, PluginList, ResponseQueue
from drahealth.fakes.inventory.devices import Device, Inventory
from drahealth.proto.services import ALLOCATE
from drahealth.proto.values import Health, PluginDevice
from drahealth.suites.unit.endings import PATIENCE
from drahealth.suites.unit.fakes.driver_rig import Rig
from drahealth.suites.unit.fakes.test_device_plugin import RESOURCE, SOCKET, lists
from drahealth.suites.unit.manager.pod_world import until

WELL = {"gpu-0": "Healthy", "split-mig-0": "Healthy", "split-mig-1": "Healthy"}
DEVICES = Inventory([Device("gpu-0"), Device("split"), Device("split/mig-0"), Device("split/mig-1")])


def options(rig: Rig, inventory: Inventory = DEVICES, **how: Any) -> PluginOptions:
    return plugin_options(inventory, RESOURCE, plugins_dir=str(rig.root / "device-plugins"), **how)


@pytest.fixture(params=["here", "there"])
async def plugin(rig: Rig, request: pytest.FixtureRequest) -> PluginControl:
    """A plugin that runs; told what to do in this process, or over a stream."""
    plugin: PluginControl
    if request.param == "here":
        plugin = here(rig)
    else:
        host = await rig.host()
        plugin = await host.make_plugin(options(rig), lambda record: rig.events.append(record.what))
    await plugin.start()
    return plugin


def here(rig: Rig, **how: Any) -> FakeDevicePlugin:
    made = FakeDevicePlugin(options(rig, **how), clock=rig.clock, observe=rig.events.append)
    rig.on_close(made.stop)
    return made


async def test_a_fault_shows_until_it_is_cleared(rig: Rig, plugin: PluginControl) -> None:
    async with lists(rig) as following:
        assert await following() == WELL
        await plugin.inject("xid/95", "gpu-0")
        assert (await following(), (await plugin.state()).faults) == (
            {**WELL, "gpu-0": "Unhealthy"},
            {"gpu-0": ("xid/95",)},
        )
        await plugin.clear("xid/95", "gpu-0")
        assert (await following(), (await plugin.state()).faults) == (WELL, {})


async def test_a_fault_of_a_divided_device_reaches_its_parts_in_one_list(rig: Rig, plugin: PluginControl) -> None:
    async with lists(rig) as following:
        await following()
        await plugin.inject("xid/95", "split")
        assert await following() == {**WELL, "split-mig-0": "Unhealthy", "split-mig-1": "Unhealthy"}
        assert await plugin.recover("app-restart") == Attempt(left=("xid/95 on split",))
        assert await plugin.recover("gpu-reset", "split") == Attempt(cleared=("xid/95 on split",))
        assert await following() == WELL


async def test_vanished_device_is_listed_once_and_again_after_recovery(rig: Rig, plugin: PluginControl) -> None:
    async with lists(rig) as following:
        await following()
        await plugin.inject("xid/79", "gpu-0")
        assert await following() == {**WELL, "gpu-0": "Unhealthy"}
        await plugin.set_health("split-mig-0", "Hot")
        assert await following() == {"split-mig-0": "Hot", "split-mig-1": "Healthy"}
        assert (await plugin.devices())[0] == ListedDevice("gpu-0", "Unhealthy", listed=False)
        await plugin.recover("reboot")
        assert await following() == {**WELL, "split-mig-0": "Hot"}


async def test_reset_clears_faults_and_restores_removed_devices(rig: Rig, plugin: PluginControl) -> None:
    await plugin.inject("xid/95", "gpu-0")
    await plugin.inject("xid/79", "split")
    await plugin.set_health("split-mig-1", "Hot")
    await plugin.remove("gpu-0")
    assert (await plugin.state()).listed == ()
    await plugin.reset()
    assert (await plugin.devices(), (await plugin.state()).faults) == (
        tuple(ListedDevice(id_, "Healthy") for id_ in WELL),
        {},
    )


async def test_removed_device_stays_removed_when_its_faults_change(rig: Rig, plugin: PluginControl) -> None:
    await plugin.remove("gpu-0")
    await plugin.inject("xid/95", "gpu-0")
    await plugin.clear("xid/95", "gpu-0")
    await plugin.set_health("gpu-0", "Odd")
    assert (await plugin.state()).listed == ("split-mig-0", "split-mig-1")
    await plugin.restore("gpu-0")
    async with lists(rig) as following:
        assert await following() == {**WELL, "gpu-0": "Odd"}


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (("inject", "xid/97", "gpu-0"), "'xid/97'"),
        (("inject", "xid/79", "gpu-9"), "'gpu-9'"),
        (("recover", "hammer"), "'hammer'"),
        (("restore", "gpu-0"), "gpu-0"),
    ],
)
async def test_invalid_command_changes_nothing(plugin: PluginControl, call: tuple[str, ...], words: str) -> None:
    with pytest.raises((ValueError, ControlFailed), match=words):
        await getattr(plugin, call[0])(*call[1:])
    assert await plugin.devices() == tuple(ListedDevice(id_, "Healthy") for id_ in WELL)


@pytest.fixture
async def failing(rig: Rig) -> FakeDevicePlugin:
    """A plugin on a clock that jumps, with a device that is being recovered for half a minute."""
    plugin = here(rig)
    await plugin.start()
    await plugin.inject("xid/95", "gpu-0")
    await plugin.recover("reboot", "gpu-0", takes=30)
    return plugin


async def test_a_recovery_takes_its_time(rig: Rig, failing: FakeDevicePlugin) -> None:
    async with lists(rig) as following:
        assert await following() == {**WELL, "gpu-0": "Unhealthy"}
        rig.clock.jump(30)
        assert await following() == WELL


async def test_recovery_during_a_plugin_crash_is_reported_after_restart(rig: Rig, failing: FakeDevicePlugin) -> None:
    fence = here(rig, instance="b")
    await fence.start()
    await fence.inject("xid/95", "gpu-0")
    await fence.recover("reboot", "gpu-0", takes=30)
    await failing.crash()
    rig.clock.jump(31)
    await until(lambda: fence.known[0].health == "Healthy")
    assert failing.known[0].health == "Unhealthy"
    await failing.start()
    async with lists(rig) as following:
        if (first := await following())["gpu-0"] == "Unhealthy":
            first = await following()
    assert first == WELL


async def test_policy_decides_the_health(rig: Rig) -> None:
    plugin = here(rig, policy="nvsentinel")
    await plugin.inject("xid/94", "gpu-0")
    assert (plugin.known[0].health, (await plugin.state()).faults) == ("Healthy", {"gpu-0": ("xid/94",)})


# -- containers


async def allocated(rig: Rig, *devices: str) -> dict[str, str]:
    """What a container with these has in its environment by the plugin's answer."""
    answer = await rig.call(ALLOCATE, SOCKET, container_requests=[{"devices_ids": devices}])
    return dict(answer.container_responses[0].envs)


async def test_a_container_has_the_environment_of_its_devices(rig: Rig) -> None:
    devices = Inventory([Device("gpu-0", environment={"A": "1"}), Device("gpu-1", environment={"B": "2"})])
    plugin = here(rig, inventory=devices)
    await plugin.start()
    assert await allocated(rig, "gpu-1", "gpu-0") == {"DEVICES": "gpu-1,gpu-0", "B": "2", "A": "1"}


async def test_plugin_with_cdi_kind_has_a_specification_until_it_retires(rig: Rig) -> None:
    devices = Inventory([Device("gpu"), Device("gpu/mig", environment={"A": "1"})])
    plugin = here(rig, inventory=devices, cdi_kind="example.com/fake", cdi_dir=str(rig.root / "cdi"))
    await plugin.start()
    (file,) = (rig.root / "cdi").iterdir()
    written = json.loads(file.read_text())
    env = ["DRAHEALTH_GPU_MIG=example.com/gpu", "DRAHEALTH_GPU_MIG_PARENT=gpu", "A=1"]
    assert (file.name, written["kind"]) == ("example.com-fake.json", "example.com/fake")
    assert written["devices"] == [{"name": "gpu-mig", "containerEdits": {"env": env}}]
    assert await allocated(rig, "gpu-mig") == {"DEVICES": "gpu-mig"}
    await plugin.retire()
    assert list((rig.root / "cdi").iterdir()) == []


# -- what it lists


async def test_full_queue_keeps_the_newest_responses_in_order() -> None:
    responses = [(PluginDevice("gpu-0", str(number)),) for number in range(MAX_RESPONSES + 7)]
    waiting = ResponseQueue(responses[0])
    for response in responses[1:]:
        waiting.put(response)
    assert [await waiting.take() for _ in range(MAX_RESPONSES)] == responses[7:]
    telling = asyncio.create_task(waiting.take())
    await asyncio.sleep(0)
    waiting.put(responses[0])
    assert await asyncio.wait_for(telling, PATIENCE) == responses[0]


IDS = ("a", "b", "c")
ORDERS = st.lists(
    st.tuples(st.sampled_from(["remove", "restore", "vanish", "heal"]), st.sampled_from(IDS)), max_size=12
)


@given(ORDERS)
def test_device_is_listed_unless_removed_or_vanished(orders: list[tuple[str, str]]) -> None:
    devices, out, gone = PluginList("r/r", IDS), set[str](), set[str]()
    for what, device in orders:
        if what in ("remove", "restore"):
            if (device in out | gone) != (what == "restore"):
                continue  # it is refused
            getattr(devices, what)(device)
            (out.add if what == "remove" else out.discard)(device)
            gone -= {device}
        else:
            last = devices.change({device: DeviceState(Health.UNHEALTHY, listed=what != "vanish")})
            assert (device in {one.id for one in last}) == (device not in out)
            (gone.add if what == "vanish" else gone.discard)(device)
    assert [one.id for one in devices.response()] == [id_ for id_ in IDS if id_ not in out | gone]


@given(st.lists(st.text(max_size=6), max_size=5, unique_by=lambda id_: id_.replace("/", "-")))
def test_any_ids_are_those_of_devices_that_can_fail(ids: list[str]) -> None:
    made = PluginOptions("example.com/gpu", tuple(ids), "/d")
    assert list(made.ids.values()) == ids
    assert set(made.all_devices.leaves) == set(made.ids)
    assert PluginList("r", ids).response() == tuple(PluginDevice(id_) for id_ in ids)
