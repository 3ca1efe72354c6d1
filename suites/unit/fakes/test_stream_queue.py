"""The queue of a slow stream: only the newest complete report stays queued; all other messages are sent in order."""

import asyncio
from collections.abc import Sequence

import grpc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drahealth.fakes.clock import JumpClock
from drahealth.fakes.kubelet_plugin.health_streams import MAX_DEVICES, MAX_MESSAGES, StreamFaults, StreamQueue
from drahealth.suites.unit.endings import PATIENCE


class Listener:
    """Reads a message at a time; capital letters are complete lists."""

    def __init__(self, limits: tuple[int, int] = (MAX_MESSAGES, MAX_DEVICES)) -> None:
        self.faults = StreamFaults()
        self.clock = JumpClock()
        more = {"limits": limits} if limits else {}
        self.outlet = StreamQueue[str](
            "d#1", self.faults, self.clock, 1, lambda: "N", coalesces=str.isupper, size=_size, **more
        )
        self.messages = self.outlet.messages()

    def put(self, messages: Sequence[str]) -> None:
        for message in messages:
            self.outlet.put(message)

    async def reads(self, count: int) -> str:
        async with asyncio.timeout(PATIENCE):
            return "".join([await anext(self.messages) for _ in range(count)])


def _size(message: str) -> int:
    """A complete list lists ten devices."""
    return 10 if message.isupper() else 1


async def busy(messages: str, limits: tuple[int, int] = (MAX_MESSAGES, MAX_DEVICES)) -> Listener:
    """A listener to whom one message is on its way while these are put in."""
    listener = Listener(limits)
    listener.put("_")
    assert await listener.reads(1) == "_"
    listener.put(messages)
    return listener


@pytest.mark.parametrize(
    ("put", "heard"), [("ABC", "C"), ("AxByCz", "xyCz"), ("xyz", "xyz"), ("xxAAy", "xxAy"), ("Ax", "Ax")]
)
async def test_slow_client_receives_the_newest_list_and_all_partial_reports(put: str, heard: str) -> None:
    listener = await busy(put)
    assert await listener.reads(len(heard)) == heard


async def test_waiting_client_receives_each_message() -> None:
    listener = Listener()
    listener.put("ABC")
    assert await listener.reads(3) == "ABC"


async def test_newer_list_replaces_a_queued_one() -> None:
    listener = Listener()
    listener.put("ABC")
    assert await listener.reads(1) == "A"
    listener.put("xD")
    assert await listener.reads(2) == "xD"


@pytest.mark.parametrize(("fault", "heard"), [({"duplicate": 1.0}, "AABBCC"), ({"reorder": 1.0}, "BADC")])
async def test_messages_changed_by_a_stream_fault_are_all_sent(fault: dict[str, float], heard: str) -> None:
    listener = await busy("")
    for kind, share in fault.items():
        listener.faults.set(kind, share)
    listener.put(sorted(set(heard)))
    assert await listener.reads(len(heard)) == heard


async def test_all_stalled_messages_are_sent_after_the_stall() -> None:
    listener = await busy("")
    listener.faults.set("stall")
    listener.put("ABC")
    listener.faults.clear("stall")
    listener.put("D")
    assert await listener.reads(4) == "ABCD"


async def test_a_delayed_list_takes_no_place_before_it_is_due() -> None:
    listener = await busy("A")
    listener.faults.set("delay", 10.0)
    listener.put("BC")
    assert await listener.reads(1) == "A"
    listener.clock.jump(11)
    assert await listener.reads(1) == "C"


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 3)), max_size=30), st.integers(0, 4))
async def test_queue_drops_only_older_lists_and_keeps_the_order(puts: list[tuple[bool, int]], slow: int) -> None:
    listener = Listener()

    async def listens() -> list[str]:
        heard = []
        async for message in listener.messages:
            heard.append(message)
            await pauses(slow)
        return heard

    hearing = asyncio.create_task(listens())
    for number, (is_list, pause) in enumerate(puts):
        listener.put([f"{'A' if is_list else 'a'}{number:02}"])
        await pauses(pause)
    listener.outlet.close(grpc.StatusCode.OK)
    heard, put = await hearing, [f"{'A' if is_list else 'a'}{number:02}" for number, (is_list, _) in enumerate(puts)]
    last = [message for message in put if message.isupper()][-1:]
    assert heard == [message for message in put if message in heard]
    assert {message for message in put if message.islower()} | set(last) <= set(heard)


# -- what is too much to wait


@pytest.mark.parametrize(
    ("put", "limits", "heard", "left_out"),
    [
        ("abc", (3, 99), "abc", 0),
        ("abcdef", (3, 99), "abN", 3),
        ("abcdef", (99, 12), "abcdef", 0),
        ("abcA", (99, 12), "abN", 1),
        ("AbBcCdDeE", (4, 99), "bcN", 2),
    ],
)
async def test_full_queue_is_replaced_by_the_newest_list(
    put: str, limits: tuple[int, int], heard: str, left_out: int
) -> None:
    listener = await busy(put, limits)
    assert (await listener.reads(len(heard)), listener.outlet.dropped) == (heard, left_out)


async def test_messages_beyond_a_full_stall_are_dropped_and_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    listener = await busy("", (3, 99))
    listener.faults.set("stall")
    listener.put("ABCDEFG")
    listener.faults.clear("stall")
    assert await listener.reads(3) == "ABN"
    assert [record.getMessage().partition(":")[0] for record in caplog.records] == ["stream d#1"]


async def test_coalesced_lists_never_overflow_the_queue() -> None:
    listener = await busy("A" * 1000 + "B", (2, 99))
    assert (await listener.reads(1), listener.outlet.dropped) == ("B", 0)


async def test_first_messages_of_a_full_delay_are_in_time() -> None:
    listener = await busy("", (2, 99))
    listener.faults.set("delay", 10.0)
    listener.put("ab")
    for _ in range(12):
        listener.clock.jump(1)
        listener.put("c")
    assert await listener.reads(1) == "a"


@given(st.lists(st.sampled_from("abAB<>_"), max_size=60))
async def test_queue_keeps_its_limits_and_the_last_state_arrives(doings: list[str]) -> None:
    listener, put = await busy("", (4, 35)), ""
    for doing in doings:
        match doing:
            case "<":
                listener.faults.set("stall")
            case ">":
                listener.faults.clear("stall")
            case "_" if put:
                await pauses(3)
            case _:
                put += doing
                listener.put(doing)
    listener.faults.clear("stall")
    listener.outlet.close(grpc.StatusCode.OK)
    heard = "".join([message async for message in listener.messages])
    assert (len(heard) <= 5, heard[-1:] in {put[-1:], "N"}) == (True, True)


async def pauses(times: int) -> None:
    for _ in range(times):
        await asyncio.sleep(0)
