"""What goes out of a stream to who listens slowly: only the newest complete list waits, all else waits its turn."""

import asyncio
from collections.abc import Sequence

import grpc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drahealth.fakes.clock import JumpClock
from drahealth.fakes.hardware.outlet import Outlet
from drahealth.fakes.hardware.stream_faults import StreamFaults


class Listener:
    """Reads a message at a time; capital letters are complete lists."""

    def __init__(self) -> None:
        self.faults = StreamFaults()
        self.clock = JumpClock()
        self.outlet = Outlet[str](self.faults, self.clock, 1, str.isupper)
        self.messages = self.outlet.messages()

    def put(self, messages: Sequence[str]) -> None:
        for message in messages:
            self.outlet.put(message)

    async def reads(self, count: int) -> str:
        return "".join([await anext(self.messages) for _ in range(count)])


async def busy(messages: str) -> Listener:
    """A listener to whom one message is on its way while these are put in."""
    listener = Listener()
    listener.put("_")
    assert await listener.reads(1) == "_"
    listener.put(messages)
    return listener


@pytest.mark.parametrize(
    ("put", "heard"), [("ABC", "C"), ("AxByCz", "xyCz"), ("xyz", "xyz"), ("xxAAy", "xxAy"), ("Ax", "Ax")]
)
async def test_a_slow_listener_hears_the_newest_list_and_all_that_is_none(put: str, heard: str) -> None:
    listener = await busy(put)
    assert await listener.reads(len(heard)) == heard


async def test_who_waits_for_messages_hears_each() -> None:
    listener = Listener()
    listener.put("ABC")
    assert await listener.reads(3) == "ABC"


async def test_what_comes_while_a_list_waits_takes_its_place() -> None:
    listener = Listener()
    listener.put("ABC")
    assert await listener.reads(1) == "A"
    listener.put("xD")
    assert await listener.reads(2) == "xD"


@pytest.mark.parametrize(("fault", "heard"), [({"duplicate": 1.0}, "AABBCC"), ({"reorder": 1.0}, "BADC")])
async def test_what_a_stream_fault_has_touched_is_there_to_be_seen(fault: dict[str, float], heard: str) -> None:
    listener = await busy("")
    for kind, share in fault.items():
        listener.faults.set(kind, share)
    listener.put(sorted(set(heard)))
    assert await listener.reads(len(heard)) == heard


async def test_all_that_was_stalled_goes_out_when_that_is_over() -> None:
    listener = await busy("")
    listener.faults.set("stall")
    listener.put("ABC")
    listener.faults.restore("stall")
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
async def test_nothing_but_older_lists_is_lost_and_the_order_is_kept(puts: list[tuple[bool, int]], slow: int) -> None:
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


async def pauses(times: int) -> None:
    for _ in range(times):
        await asyncio.sleep(0)
