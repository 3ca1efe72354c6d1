"""Play many scripts on the subject and on the reference, and compare.

A difference counts if it occurs again in each of three replays, with new drivers and pods. A script that comes too
close to the end of a timeout is played again, and counts as undecided if that does not help.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from drahealth.fakes.cluster.api import ApiError
from drahealth.manager.profile import Profile
from drahealth.suites.differential.comparison import Difference, compare
from drahealth.suites.differential.observation import Played
from drahealth.suites.differential.reference_play import play_on_references
from drahealth.suites.differential.script import Script
from drahealth.suites.differential.subjects import SharedRestart
from drahealth.suites.differential.uncertainty import uncertainty
from drahealth.suites.errors import HarnessError, full_text

REPLAYS = 3
"""Number of replays in which a difference must occur again."""
_TRIES = 3
"""Maximum number of plays of a script that comes too close to the end of a timeout."""

Verdict = Literal["same", "different", "fleeting", "undecided", "broken"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a script.

    `same`: no difference. `different`: the same difference in each replay. `fleeting`: different, but not in each
    replay. `undecided`: too close to the end of a timeout each time. `broken`: not played to its end.
    """

    number: int
    script: Script
    verdict: Verdict
    differences: tuple[Difference, ...] = ()
    fault: str = ""
    plays: int = 1
    seen: Played | None = None
    """The first complete play on the subject."""


class Subject(Protocol):
    """The counterpart of the reference in a comparison."""

    @property
    def lanes(self) -> int:
        """The number of scripts that it plays at a time."""

    async def play(self, script: Script, restart: Callable[[], Awaitable[None]] | None = None) -> Played: ...

    async def restart(self) -> None: ...


@dataclass(frozen=True, slots=True)
class _Compared:
    seen: Played
    certain: tuple[Difference, ...]
    is_doubtful: bool


class Campaign:
    """Plays scripts on a subject and on references of `profile`. Calls `on_outcome` with each outcome."""

    def __init__(self, subject: Subject, profile: Profile, on_outcome: Callable[[Outcome], None]) -> None:
        self._subject = subject
        self._profile = profile
        self._on_outcome = on_outcome

    async def run(self, scripts: Mapping[int, Script]) -> list[Outcome]:
        """Play all scripts, by number. Scripts that restart the kubelet come last, in groups with one restart each."""
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
        """The outcome of one more play of a script that differs, or of a smaller one."""
        compared = await self._try(script)
        if isinstance(compared, str):
            return Outcome(0, script, "broken", fault=compared)
        word: Verdict = "different" if compared.certain else "same"
        return Outcome(0, script, word, compared.certain, seen=compared.seen)

    async def _judge_together(self, group: Sequence[tuple[int, Script]]) -> list[Outcome]:
        restart = SharedRestart(self._subject.restart, len(group))

        async def one(number: int, script: Script) -> Outcome:
            try:
                first = await self._try(script, restart.restart)
            finally:
                await restart.leave()
            return await self._judge(number, script, first)

        async with asyncio.TaskGroup() as tasks:
            plays = [tasks.create_task(one(*item)) for item in group]
        return [play.result() for play in plays]

    async def _judge(self, number: int, script: Script, first: "_Compared | str | None" = None) -> Outcome:
        outcome = await self._verdict(number, script, first)
        self._on_outcome(outcome)
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
        """One comparison, or the error that prevented it."""
        try:
            return await self._compare(script, restart)
        except (HarnessError, ApiError) as error:
            return full_text(error)
        except TimeoutError:
            return "timeout of a play"

    async def _compare(self, script: Script, restart: Callable[[], Awaitable[None]] | None) -> _Compared:
        theirs = await self._subject.play(script, restart)
        ours = await play_on_references(script, self._profile, theirs.times)
        differences = compare(ours, theirs)
        doubtful = uncertainty(script, theirs.times)
        certain = tuple(d for d in differences if not doubtful.covers(d.step, d.moment))
        return _Compared(theirs, certain, is_doubtful=len(certain) < len(differences))
