"""What the reference has received from drivers. A play on it waits for that, because a large report takes its time."""

from collections import Counter
from collections.abc import Callable

from drahealth.proto.events import Event, MalformedReceived, ReportReceived, StreamClosed
from drahealth.suites.differential.lane import poll

LIMIT = 60.0
"""Seconds until the reference has surely received a report, or opened a stream again."""


class Receipts:
    """Counts the reports that the reference receives, and the ends of its streams, by driver."""

    def __init__(self) -> None:
        self._reports: Counter[str] = Counter()
        self._ends: Counter[str] = Counter()
        self._rejections: Counter[str] = Counter()
        self._last_code: dict[str, str] = {}

    def observe(self, event: Event) -> None:
        """Take an event of the reference."""
        match event:
            case ReportReceived(driver=driver) | MalformedReceived(driver=driver):
                self._reports[driver] += 1
            case StreamClosed(driver=driver, code=code):
                self._ends[driver] += 1
                self._rejections[driver] += code == "UNIMPLEMENTED"
                self._last_code[driver] = code
            case _:
                pass

    def sent(self, driver: str) -> int:
        """The number of messages that have arrived, or have ended their stream."""
        return self._reports[driver] + self._ends[driver]

    def greeted(self, driver: str) -> int:
        """The number of messages that have arrived, and of rejected streams."""
        return self._reports[driver] + self._rejections[driver]

    def is_rejected(self, driver: str) -> bool:
        """Whether the last stream of the driver that ended has ended with Unimplemented."""
        return self._last_code.get(driver) == "UNIMPLEMENTED"

    async def wait_sent(self, driver: str, before: int) -> None:
        """Wait until `sent` is above `before`."""
        await self._wait(lambda: self.sent(driver) > before)

    async def wait_greeted(self, driver: str, before: int) -> None:
        """Wait until `greeted` is above `before`."""
        await self._wait(lambda: self.greeted(driver) > before)

    async def _wait(self, true: Callable[[], bool]) -> None:
        async def is_true() -> bool:
            return true()

        await poll(is_true, LIMIT)
