"""A soak: rounds on one target until its time is over. It can be interrupted after any round, and continued."""

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from drahealth.fakes.cluster.api import ApiError
from drahealth.fakes.control.remote import ControlFailed
from drahealth.proto.events import TimePassed
from drahealth.suites.errors import HarnessError, full_text
from drahealth.suites.judging import histories
from drahealth.suites.judging.status_content import STEP_FAILED, StepFailed, Violation
from drahealth.suites.report.document import Outcome, ScenarioResult
from drahealth.suites.report.run_report import Run
from drahealth.suites.report.soak import Soak
from drahealth.suites.run.options import Options
from drahealth.suites.run.reporting import explain
from drahealth.suites.soak.leaks import hours_bound, rounds_bound, uses
from drahealth.suites.soak.random_timelines import REAL, SIMULATED, Round, round_of
from drahealth.suites.soak.rounds import play_round
from drahealth.suites.soak.watch import Watch
from drahealth.suites.story.node import Node
from drahealth.suites.targets.capabilities import Capability
from drahealth.suites.targets.registry import Launch
from drahealth.suites.targets.target import Target

T = TypeVar("T")

TITLE = "soak"
"""The title of each round for the known issues, which can name the only scenario that shows them."""
_REQUIREMENT = "STATUS-10"
_DISRUPTIONS = (Capability.RESTART_KUBELET, Capability.STOP_KUBELET, Capability.STOP_API_SERVER)
_ERRORS = 3
"""So many errors of the harness one after the other end a soak."""


@dataclass
class Progress:
    """How far a soak has come."""

    lasted: float = 0.0
    """Seconds, without the time between its pieces."""
    simulated: float = 0.0
    pieces: int = 1
    rounds: int = 0
    steps: int = 0
    disruptions: Counter[str] = field(default_factory=Counter)
    watch: Watch = field(default_factory=Watch)

    @classmethod
    def of(cls, soak: Soak) -> "Progress":
        """The progress that a report has; the next piece begins."""
        return cls(
            soak.lasted,
            soak.simulated,
            soak.pieces + 1,
            soak.rounds,
            soak.steps,
            Counter(soak.disruptions),
            Watch(soak.series),
        )

    def summary(self, asked: float, outcomes: Mapping[Outcome, int]) -> Soak:
        """For the report."""
        series, unexplained = self.watch.series(), outcomes.get("failed", 0)
        judged = sum(outcomes.values()) - outcomes.get("error", 0)
        return Soak(
            asked=asked,
            lasted=round(self.lasted, 1),
            simulated=round(self.simulated, 1),
            pieces=self.pieces,
            rounds=self.rounds,
            steps=self.steps,
            disruptions=dict(self.disruptions),
            unexplained=unexplained,
            per_round=round(rounds_bound(unexplained, judged), 6),
            per_hour=round(hours_bound(unexplained, max(self.lasted, 1.0) / 3600), 3),
            uses=tuple(uses(series)),
            series=series,
        )


class Campaign:
    """Plays the rounds of a soak. `on_round` gets each result; the run and the progress are up to date by then."""

    def __init__(
        self, options: Options, run: Run, progress: Progress, *, seed: int, on_round: Callable[[ScenarioResult], None]
    ) -> None:
        self._options = options
        self._run = run
        self._progress = progress
        self._seed = seed
        self._on_round = on_round
        self._can = frozenset(one for one in _DISRUPTIONS if one not in options.missing)
        self._simulates = Capability.ADVANCE_TIME not in options.missing
        self._loop = asyncio.Runner()
        self._before = progress.lasted
        self._began = 0.0

    def play(self, launch: Launch, *, asked: float, only: int | None = None) -> None:
        """Play rounds until the soak has lasted `asked` seconds, or `only` the round with this number.

        Raises HarnessError if the target does not start, KeyboardInterrupt after a signal. Then the target is stopped.
        """
        target = self._options.make_target(launch)
        try:
            self._await(target.start())
            self._began = time.monotonic()
            self._progress.watch.sample(self._progress.lasted)
            if only is not None:
                self._play(only, target)
            errors = 0
            while only is None and self._progress.lasted < asked and errors < _ERRORS:
                outcome = self._play(self._progress.rounds + 1, target).outcome
                errors = errors + 1 if outcome == "error" else 0
                if outcome == "error" and (lost := _loss(target)):
                    self._run.interrupted, self._run.stopped = True, lost
                    return
            if errors:
                self._run.interrupted, self._run.stopped = True, f"{errors} rounds in a row could not be played"
        finally:
            self._await(target.stop())
            self._loop.close()

    def _await(self, work: Awaitable[T]) -> T:
        async def do() -> T:
            return await work

        return self._loop.run(do())

    def _play(self, number: int, target: Target) -> ScenarioResult:
        made = round_of(self._seed, number, SIMULATED if self._simulates else REAL, self._can)
        node = Node(
            target,
            TITLE,
            (_REQUIREMENT,),
            self._await,
            needs=self._can,
            health_api=self._options.health_api,
            fixed=self._options.fixed,
        )
        error = self._error_of(made, node)
        result = self._result(made, node, error)
        progress = self._progress
        progress.lasted = self._before + time.monotonic() - self._began
        progress.simulated += sum(event.seconds for event in node.history.of(TimePassed))
        progress.rounds = number
        progress.steps += made.steps
        progress.disruptions.update(one.what for one in made.disruptions)
        progress.watch.sample(progress.lasted)
        self._run.results.append(result)
        self._on_round(result)
        return result

    def _error_of(self, made: Round, node: Node) -> Exception | None:
        """What went wrong in the round, or in its cleanup."""
        found: Exception | None = None
        try:
            self._await(node.begin())
            try:
                node.play(partial(play_round, made, node, simulated=self._simulates))
            except Exception as error:
                found = error
            finally:
                self._await(node.finish())
        except (ApiError, ControlFailed, HarnessError) as error:
            return found or error
        return found

    def _result(self, made: Round, node: Node, error: Exception | None) -> ScenarioResult:
        outcome: Outcome = "known issue" if node.deviations else "passed"
        if error:
            outcome = "failed" if isinstance(error, AssertionError) else "error"
        failure = explain(error, node, TITLE) if error else None
        broken = {issue.requirement for issue in node.deviations} if not error else set()
        if isinstance(error, Violation) and error.assertion != STEP_FAILED:
            broken = {error.requirement}
        return ScenarioResult(
            name=f"round {made.number}",
            title=made.title,
            requirements=(_REQUIREMENT,),
            outcome=outcome,
            seconds=round(node.seconds, 3),
            known_issues=tuple(sorted({issue.id for issue in node.deviations})),
            broken=tuple(sorted(broken)),
            problem="\n".join((*failure.lines(), full_text(failure.error))) if failure else _text(error),
            cause=failure.diagnosis.cause if failure else "",
            diagnosis=failure.diagnosis.text if failure else "",
            quotes=failure.quotes if failure else (),
            expected=failure.error.expected if failure else "",
            seen=failure.error.seen if failure else "",
            history=histories.format_history(node.history.records) if error else "",
            rerun=f"drahealth soak {self._options.flags} --seed {self._seed} --round {made.number}" if error else "",
            where=getattr(error, "where", ""),
            authors_step=isinstance(error, StepFailed),
            id=f"drahealth.soak::{made.number}",
        )


def _text(error: Exception | None) -> str:
    if error is None:
        return ""
    if isinstance(error, HarnessError | ApiError | ControlFailed):
        return full_text(error)
    return f"unexpected {type(error).__name__}: {error}"


def _loss(target: Target) -> str:
    """Why the target has stopped working; empty if it has not."""
    try:
        target.check()
    except HarnessError as error:
        return f"the target stopped working: {error}"
    return ""
