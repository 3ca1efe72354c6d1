"""Sessions with served drivers over any number of connections."""

import asyncio
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from drahealth.fakes.control.remote import RemoteHost
from drahealth.fakes.control.wire import LINE_LIMIT, to_line
from drahealth.proto.events import DriverEnding, StepDone
from drahealth.proto.values import Health
from drahealth.suites.unit.manager.rig import until
from drahealth.suites.unit.serve.rig import DRIVER, TWO, Rig

ATTACH = {"attach": "s", "brief": True}
USE = {"id": 1, "call": "use"}


def call(number: int, name: str, driver: int | None = 1, /, **args: Any) -> dict[str, Any]:
    """A line that calls."""
    return {"id": number, "driver": driver, "call": name, "args": args}


async def test_use_returns_the_description_of_the_driver(serving: Rig) -> None:
    async with serving.line() as ends:
        used = (await ends.asks(ATTACH, USE))["result"]
    assert used == {
        "driver": 1,
        "kind": "driver",
        "name": DRIVER,
        "node": "node-a",
        "pool": "node-a",
        "devices": 4,
        "catalogue": "nvidia",
        "policy": "nvidia-catalogue",
    }


async def test_changes_of_a_closed_connection_persist_and_others_see_them(serving: Rig) -> None:
    async with serving.line() as one, serving.line() as other:
        await one.asks(ATTACH, USE, call(2, "inject", fault="xid/79", device="gpu-0"))
        one.writer.close()
        assert await one.hears() is None
        state = (await other.asks({**ATTACH, "attach": "t"}, USE, call(2, "state")))["result"]
    assert (state["running"], state["faults"]) == (True, {"gpu-0": ["xid/79"]})


async def test_drop_of_a_served_driver_leaves_it_running(serving: Rig) -> None:
    async with serving.line() as ends:
        gone = await ends.asks(ATTACH, USE, call(2, "drop", None, driver=1), call(3, "state"))
    assert gone["error"] == "unknown driver 1"
    assert (await serving.told("state"))["running"]


async def test_watcher_receives_events_of_commands_from_other_connections(serving: Rig) -> None:
    async with serving.line() as ends:
        await ends.asks(ATTACH, USE, call(2, "watch", None, driver=1))
        await serving.told("inject", fault="xid/79", device="gpu-0")
        heard = await ends.hears()
    assert heard.pop("at") > 0
    told = {"event": "command", "driver": DRIVER, "command": "inject", "args": {"fault": "xid/79", "device": "gpu-0"}}
    assert heard == {"seq": 0, "driver": 1, "news": told}


async def test_watcher_of_one_driver_receives_no_events_of_another(rig: Rig) -> None:
    rig.file.write_text(TWO)
    await rig.serve()
    async with rig.line() as ends:
        await ends.asks(ATTACH, {**USE, "args": {"name": "nic.example.com"}}, call(2, "watch", None, driver=1))
        await rig.told("inject", DRIVER, fault="xid/79", device="gpu")
        await rig.told("set_heartbeat", "nic.example.com", seconds=9)
        assert (await ends.hears())["news"]["command"] == "set_heartbeat"


async def test_connection_without_a_watch_receives_only_replies(serving: Rig) -> None:
    async with serving.line() as ends:
        await ends.asks(ATTACH, USE)
        await serving.told("inject", fault="xid/79", device="gpu-0")
        assert (await ends.asks(call(2, "state")))["id"] == 2


async def test_events_beyond_the_watch_buffer_are_dropped_and_counted(rig: Rig) -> None:
    program = await rig.serve()
    async with rig.line() as ends:
        await ends.asks(ATTACH, USE, call(2, "watch", None, driver=1))
        for _ in range(200):
            program.news.publish(StepDone(DRIVER, "timeline.0", "x" * 100_000))
        program.news.publish(StepDone("another", "timeline.0", ""))
        heard = 0
        while heard < 40:
            heard += (await ends.hears())["news"]["event"] == "step-done"
        await ends.asks(call(3, "state"))  # the rest before it has been read by now
        program.news.publish(DriverEnding(DRIVER))
        last = await ends.hears(lambda said: said.get("news", {}).get("event") == "ending")
    assert 0 < last["left_out"] < 160


async def test_python_client_uses_a_served_driver(serving: Rig) -> None:
    host = RemoteHost(lambda: asyncio.open_unix_connection(str(serving.socket), limit=LINE_LIMIT))
    driver = await host.use()
    await driver.set_health("gpu-1", Health.UNKNOWN, "who knows")
    assert [(d.device, d.health) for d in await driver.devices()][1] == ("gpu-1", Health.UNKNOWN)
    await host.close()
    assert (await serving.health())["gpu-1"] == "Unknown"


async def test_session_makes_own_drivers_and_its_end_stops_only_those(serving: Rig) -> None:
    options = {"name": "nic.example.com", "node": "node-a", "devices": ["nic-0"]}
    options |= {"registry_dir": str(serving.root / "plugins_registry"), "data_dir": str(serving.root / "nic")}
    async with serving.line() as ends:
        made = await ends.asks(ATTACH, call(1, "make", None, options=options), call(2, "start"))
        assert (made.get("error"), await serving.slices()) == (None, 2)
    await until(lambda: "nic/dra.sock" not in serving.sockets(), 30)
    assert (await serving.told("state"))["running"]


async def test_session_cannot_make_a_driver_on_sockets_in_use(serving: Rig) -> None:
    where = {"registry_dir": f"{serving.root}/plugins_registry", "data_dir": f"{serving.root}/plugins/{DRIVER}"}
    options = {"name": DRIVER, "node": "node-a", "devices": ["gpu-0"], **where}
    async with serving.line() as ends:
        refused = await ends.asks(ATTACH, call(1, "make", None, options=options), call(2, "start"))
        assert f"{where['data_dir']}/" in refused["error"]
    assert ((await serving.told("state"))["running"], len(serving.sockets())) == (True, 5)


# -- what is no request


@pytest.mark.parametrize(
    ("lines", "error"),
    [
        ([b"\xff\n"], '"attach"'),
        ([ATTACH, b"{\n"], "JSON"),
        ([ATTACH, {"id": 1, "call": "fly"}], "'fly'"),
        ([ATTACH, {"id": 1, "call": "use", "args": {"name": "nic"}}], "'nic'"),
        ([ATTACH, {"id": 1, "call": "use", "args": {"nam": "nic"}}], "nam: unknown field"),
        ([ATTACH, call(1, "watch", None, driver=7)], "7 is not a served driver of this session; call `use` first"),
        ([ATTACH, USE, call(2, "fly")], "'fly'"),
        ([ATTACH, USE, call(2, "inject", fault="xid/79")], "device: this field is required"),
        ([ATTACH, b"x" * (LINE_LIMIT + 2) + b"\n"], str(LINE_LIMIT)),
    ],
)
async def test_invalid_request_gets_an_error_reply_and_serving_continues(
    serving: Rig, lines: list[Any], error: str
) -> None:
    async with serving.line() as ends:
        assert error in (await ends.asks(*lines))["error"]
    assert (await serving.told("state"))["running"]


async def test_connection_closed_mid_line_stops_no_driver_and_logs_nothing(
    serving: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    for said in (b"", b"{", to_line(ATTACH) + b'{"id": 1'):
        async with serving.line() as ends:
            ends.writer.write(said)
    assert ((await serving.told("state"))["running"], caplog.records) == (True, [])


async def test_changes_with_one_invalid_device_are_rejected_as_a_whole(serving: Rig) -> None:
    changes = [{"pool": "node-a", "device": name, "health": "Unhealthy"} for name in ("gpu-0", "gpu-9")]
    async with serving.line() as ends:
        refused = await ends.asks(ATTACH, USE, call(2, "play", changes=changes))
    assert "node-a/gpu-9" in refused["error"]
    assert set((await serving.health()).values()) == {"Healthy"}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=10,
)
ARGS = st.dictionaries(st.sampled_from(["fault", "device", "health", "changes", "kind", "value", "code"]), JSON)
TOLD = ["inject", "clear", "recover", "play", "set_health", "stream_drop", "report", "use", "watch", "make"]
ALMOST = {
    "id": st.integers(2, 9),
    "driver": st.just(1) | JSON,
    "call": st.sampled_from(TOLD) | st.text(),
    "args": ARGS | JSON,
}


@given(JSON | st.text().map(lambda text: text.replace("\n", "")) | st.fixed_dictionaries(ALMOST))
@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
async def test_no_line_that_makes_no_sense_does_anything(serving: Rig, line: Any) -> None:
    async with serving.line() as ends:
        await ends.asks(ATTACH, USE)
        ends.writer.write(line.encode(errors="replace") + b"\n" if isinstance(line, str) else to_line(line))
        devices = await ends.asks(call(100, "devices"), until=lambda said: said["id"] == 100)
        state = await ends.asks(call(101, "state"))
    assert {device["health"] for device in devices["result"]} == {"Healthy"}
    assert (state["result"]["faults"], state["result"]["running"]) == ({}, True)
