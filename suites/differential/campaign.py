"""Many scripts, each played on the subject and on the reference, and what comes of it.

A difference counts once it was seen again in each of three replays, with fresh drivers and pods. What came too near to
the edge of a timeout is played again, and counted by itself if it stays so.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from drahealth.fakes.cluster.api import ApiError
from drahealth.manager.profile import Profile
from drahealth.suites.differential.comparison import Difference, compare
from drahealth.suites.differential.observation import Played
from drahealth.suites.differential.script import Script
from drahealth.suites.differential.timing import doubts
from drahealth.suites.differential.venue import Together, play_on_references
from drahealth.suites.errors import HarnessError, full_text

REPLAYS = 3
"""How often a difference must be seen again to count."""
_TRIES = 3
"""How often a script is played that came too near to an edge."""

Verdict = Literal["same", "different", "fleeting", "undecided", "broken"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a script: the `same` on both; `different`, and again in each replay; `fleeting`, different but not
    in each replay; `undecided`, too near to an edge each time; `broken`, not played to its end."""

    number: int
    script: Script
    verdict: Verdict
    differences: tuple[Difference, ...] = ()
    fault: str = ""
    plays: int = 1
    seen: Played | None = None
    """The first play on the subject that came to its end."""


class Subject(Protocol):
    """What is compared with the reference."""

    @property
    def lanes(self) -> int:
        """How many scripts it plays at a time."""

    async def play(self, script: Script, restart: Callable[[], Awaitable[None]] | None = None) -> Played: ...

    async def restart(self) -> None: ...


@dataclass(frozen=True, slots=True)
class _Compared:
    seen: Played
    certain: tuple[Difference, ...]
    is_doubtful: bool


class Campaign:
    """Plays scripts on a subject and on references of `profile`. `tell` is given each outcome as it comes."""

    def __init__(self, subject: Subject, profile: Profile, tell: Callable[[Outcome], None]) -> None:
        self._subject = subject
        self._profile = profile
        self._tell = tell

    async def run(self, scripts: Mapping[int, Script]) -> list[Outcome]:
        """All scripts, by number: those that restart the kubelet after the others, as many at a time as there are
        lanes, with one restart for all of them."""
        free = asyncio.Semaphore(self._subject.lanes)

        async def one(number: int, script: Script) -> Outcome:
            async with free:
                return await self._judge(number, script)

        ordinary = {number: script for number, script in scripts.items() if not script.restarts}
        outcomes = list(await asyncio.gather(*(one(*item) for item in ordinary.items())))
        restarting = [item for item in scripts.items() if item[1].restarts]
        for begin in range(0, len(restarting), self._subject.lanes):
            outcomes += await self._judge_together(restarting[begin : begin + self._subject.lanes])
        return sorted(outcomes, key=lambda outcome: outcome.number)

    async def again(self, script: Script) -> Outcome:
        """What comes of one more play of a script that differs, or of one that was made of it."""
        compared = await self._try(script)
        if isinstance(compared, str):
            return Outcome(0, script, "broken", fault=compared)
        word: Verdict = "different" if compared.certain else "same"
        return Outcome(0, script, word, compared.certain, seen=compared.seen)

    async def _judge_together(self, group: Sequence[tuple[int, Script]]) -> list[Outcome]:
        together = Together(self._subject.restart, len(group))

        async def one(number: int, script: Script) -> Outcome:
            try:
                first = await self._try(script, together.restart)
            finally:
                await together.ended()
            return await self._judge(number, script, first)

        async with asyncio.TaskGroup() as tasks:
            plays = [tasks.create_task(one(*item)) for item in group]
        return [play.result() for play in plays]

    async def _judge(self, number: int, script: Script, first: "_Compared | str | None" = None) -> Outcome:
        outcome = await self._verdict(number, script, first)
        self._tell(outcome)
        return outcome

    async def _verdict(self, number: int, script: Script, first: "_Compared | str | None") -> Outcome:
        compared = first if first is not None else await self._try(script)
        plays = 1
        while plays < _TRIES and (isinstance(compared, str) or (compared.is_doubtful and not compared.certain)):
            compared = await self._try(script)
            plays += 1
        if isinstance(compared, str):
            return Outcome(number, script, "broken", fault=compared, plays=plays)
        if not compared.certain:
            word: Verdict = "undecided" if compared.is_doubtful else "same"
            return Outcome(number, script, word, plays=plays, seen=compared.seen)
        again = [await self._try(script) for _ in range(REPLAYS)]
        word = "different" if all(not isinstance(each, str) and each.certain for each in again) else "fleeting"
        return Outcome(number, script, word, compared.certain, plays=plays + REPLAYS, seen=compared.seen)

    async def _try(self, script: Script, restart: Callable[[], Awaitable[None]] | None = None) -> "_Compared | str":
        """One comparison, or why there is none."""
        try:
            return await self._compare(script, restart)
        except (HarnessError, ApiError) as error:
            return full_text(error)
        except TimeoutError:
            return "a play took too long"

    async def _compare(self, script: Script, restart: Callable[[], Awaitable[None]] | None) -> _Compared:
        theirs = await self._subject.play(script, restart)
        ours = await play_on_references(script, self._profile, theirs.times)
        differences = compare(ours, theirs)
        doubtful = doubts(script, theirs.times)
        certain = tuple(d for d in differences if not doubtful.cover(d.step, d.moment))
        return _Compared(theirs, certain, is_doubtful=len(certain) < len(differences))
