"""`drahealth ctl`: device overrides, stream faults, and start, stop and restart of drivers."""

import asyncio

import pytest

from drahealth.suites.unit.endings import PATIENCE
from drahealth.suites.unit.manager.rig import until
from drahealth.suites.unit.serve.rig import DRIVER, TWO, Rig, Said
from drahealth.suites.unit.serve.test_program import SOCKETS

DONE = Said(0, "", "")


async def said(rig: Rig, device: str) -> tuple[str, str, int]:
    """What the driver says of a device."""
    found = {one["device"]: one for one in await rig.told("devices")}[device]
    return found["health"], found["message"], found["timeout"]


# -- set


async def test_set_changes_health_and_message_of_a_device(serving: Rig) -> None:
    assert await serving.ctl("set", "gpu-0", "--health", "unknown", "--message", "who knows") == DONE
    assert await said(serving, "gpu-0") == ("Unknown", "who knows", 0)


async def test_set_keeps_omitted_values_but_new_health_clears_the_message(serving: Rig) -> None:
    await serving.ctl("set", "split/mig-0", "--health", "Unhealthy", "--message", "odd", "--timeout", "7")
    await serving.ctl("set", "split/mig-0", "--message", "odder")
    assert await said(serving, "split-mig-0") == ("Unhealthy", "odder", 7)
    await serving.ctl("set", "split/mig-0", "--health", "Healthy")
    assert await said(serving, "split-mig-0") == ("Healthy", "", 7)


async def test_set_heartbeat_applies_to_the_driver(rig: Rig) -> None:
    program = await rig.serve()
    assert await rig.ctl("set", "--heartbeat", "3.5") == DONE
    assert (await program.drivers[0].state()).heartbeat == 3.5


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("gpu-0",), "nothing to set for gpu-0; pass --health, "),
        (("--health", "Healthy"), "missing DEVICE; "),
        ((), "missing DEVICE; "),
        (("gpu-0", "--health", "sick"), "--health must be one of Healthy, Unhealthy, Unknown, got 'sick'"),
        (("gpu-9", "--message", "x", "--heartbeat", "3"), "'gpu-9'"),
        (("gpu-9", "--health", "Unknown", "--heartbeat", "3"), "'gpu-9'"),
        (("gpu-0", "--health", "Unknown", "--heartbeat", "-1"), "heartbeat"),
        (("gpu-0", "--timeout", "99999999999999999999"), "--timeout must be between 0 and"),
    ],
)
async def test_invalid_set_arguments_change_nothing(rig: Rig, arguments: tuple[str, ...], words: str) -> None:
    program = await rig.serve()
    refused = await rig.ctl("set", *arguments)
    assert (refused.code, refused.out) == (2, "")
    assert words in refused.err
    heartbeat = (await program.drivers[0].state()).heartbeat
    assert (heartbeat, await said(rig, "gpu-0")) == (10.0, ("Healthy", "", 0))


async def test_devices_flap_until_the_fault_is_cleared(serving: Rig) -> None:
    assert await serving.ctl("flap", "gpu-0", "gpu-1", "--every", "50ms", "--fault", "xid/95") == DONE
    seen = set[str]()
    async with asyncio.timeout(PATIENCE):
        while seen != {"Healthy", "Unhealthy"}:
            seen.add((await said(serving, "gpu-1"))[0])
    assert await serving.ctl("clear", "xid/95", "gpu-*") == DONE
    assert ((await said(serving, "gpu-0"))[0], (await said(serving, "gpu-1"))[0]) == ("Healthy", "Healthy")


# -- streams


@pytest.mark.parametrize(
    ("arguments", "values"),
    [
        (("stall",), {"stall": 1.0}),
        (("delay", "1m500ms"), {"delay": 60.5}),
        (("drop", "20%"), {"drop": 0.2}),
        (("duplicate", "0.5"), {"duplicate": 0.5}),
        (("reorder",), {"reorder": 1.0}),
    ],
)
async def test_streams_have_faults_until_they_are_restored(
    rig: Rig, arguments: tuple[str, ...], values: dict[str, float]
) -> None:
    health = (await rig.serve()).drivers[0].health
    assert (await rig.ctl("stream", *arguments), health.faults.values) == (DONE, values)
    assert (await rig.ctl("stream", "restore", arguments[0]), health.faults.values) == (DONE, {})


async def test_stream_restore_clears_silence_partial_and_skew_together(rig: Rig) -> None:
    health = (await rig.serve()).drivers[0].health
    for arguments in (("silence",), ("partial",), ("skew", "-5m")):
        assert await rig.ctl("stream", *arguments) == DONE
    assert (health.silenced, health.partial, health.skew) == (True, True, -300)
    assert await rig.ctl("stream", "restore") == DONE
    assert (health.silenced, health.partial, health.skew) == (False, False, 0)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("delay", "soon"), "'soon'"),
        (("delay", "-5s"), "-5"),
        (("drop", "much"), "'much'"),
        (("drop", "120%"), "120%"),
        (("close", "GONE"), "'GONE'"),
        (("send", "xyz"), "a message must be hexadecimal, such as 0aff, got 'xyz'"),
        (("restore", "stal"), "'stal'"),
    ],
)
async def test_invalid_stream_arguments_are_rejected(rig: Rig, arguments: tuple[str, ...], words: str) -> None:
    health = (await rig.serve()).drivers[0].health
    refused = await rig.ctl("stream", *arguments)
    assert (refused.code, refused.err.count("\n"), health.faults.values) == (2, 1, {})
    assert words in refused.err


# -- lives


async def test_driver_stops_and_starts_while_its_process_keeps_running(serving: Rig) -> None:
    assert (await serving.ctl("stop"), serving.sockets()) == (DONE, ["control.sock"])
    assert (await serving.ctl("start"), serving.sockets()) == (DONE, SOCKETS)


async def test_a_driver_crashes_and_its_sockets_stay(serving: Rig) -> None:
    assert await serving.ctl("crash") == DONE
    left = [f"plugins/{DRIVER}/dra.sock", f"plugins_registry/{DRIVER}-reg.sock"]
    assert serving.sockets() == ["control.sock", *left]
    assert (await serving.told("state"))["running"] is False
    assert (await serving.ctl("start"), serving.sockets()) == (DONE, SOCKETS)


async def test_a_driver_unregisters(serving: Rig) -> None:
    assert await serving.ctl("unregister") == DONE
    assert f"plugins_registry/{DRIVER}-reg.sock" not in serving.sockets()


# -- several drivers


async def test_command_for_several_drivers_requires_the_driver_option(rig: Rig) -> None:
    rig.file.write_text(TWO)
    await rig.serve()
    which = await rig.ctl("inject", "link/down", "nic")
    assert which == Said(
        2,
        "",
        "drahealth: the process serves several drivers; choose one with --driver: gpu.example.com, nic.example.com\n",
    )
    assert (await rig.ctl("--driver", "nic.example.com", "inject", "link/down", "nic")).code == 0
    assert (await rig.told("state", "gpu.example.com"))["faults"] == {}
    assert (await rig.told("state", "nic.example.com"))["faults"] == {"nic": ["link/down"]}


async def test_status_lists_all_drivers(rig: Rig) -> None:
    rig.file.write_text(TWO)
    await rig.serve()
    shown = (await rig.ctl("status")).out.splitlines()
    assert [line.partition(" ")[0] for line in shown if "running" in line] == ["gpu.example.com", "nic.example.com"]


async def test_all_drivers_of_a_file_retire_together(rig: Rig) -> None:
    rig.file.write_text(TWO)
    await rig.serve()
    assert await until(lambda: len(rig.sockets()) == 9, PATIENCE)
    await rig.end()
    assert (rig.sockets(), await rig.slices()) == ([], 0)


async def test_taint_stays_on_a_device_until_untaint(serving: Rig) -> None:
    assert await serving.ctl("taint", "gpu-0", "example.com/sick=yes:NoExecute") == DONE
    tainted = (await serving.told("state"))["taints"]
    assert await serving.ctl("untaint", "gpu-0", "example.com/sick") == DONE
    expected = {"gpu-0": [{"key": "example.com/sick", "value": "yes", "effect": "NoExecute"}]}
    assert (tainted, (await serving.told("state"))["taints"]) == (expected, {})
    refused = await serving.ctl("taint", "gpu-0", "example.com/sick:Never")
    assert (refused.code, "'Never'" in refused.err) == (2, True)


async def test_a_driver_restarts(serving: Rig) -> None:
    before = [socket.stat().st_mtime_ns for socket in serving.root.rglob("*-reg.sock")]
    assert await serving.ctl("restart") == DONE
    after = [socket.stat().st_mtime_ns for socket in serving.root.rglob("*-reg.sock")]
    assert (len(before), len(after), before != after) == (1, 1, True)
    assert (await serving.told("state"))["running"]
