"""One run of scenarios: the loop they share, the target they run on, and what came of each."""

import asyncio
import logging
import time
from collections.abc import Awaitable
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import TypeVar

import pytest
from rich.console import Console

from drahealth.suites.errors import HarnessError
from drahealth.suites.judging.ledger import KnownIssue
from drahealth.suites.run.distribution import WorkerEnvironment, request, shared_file
from drahealth.suites.run.options import Options
from drahealth.suites.run.stages import Stages
from drahealth.suites.scenario import Scenario, scenario_of
from drahealth.suites.story.node import Node
from drahealth.suites.targets.definition import Launch
from drahealth.suites.targets.target import Target

T = TypeVar("T")

_EVERY = 5.0
"""Seconds between signs of life."""

_KEY: "pytest.StashKey[Session]" = pytest.StashKey()


@dataclass
class Played:
    """A scenario as it was played here: its node holds the history."""

    scenario: Scenario
    node: Node
    known_issues: list[KnownIssue] = field(default_factory=list)
    stale: list[KnownIssue] = field(default_factory=list)


class Session:
    """Starts the target when the first scenario needs it, and stops it at the end."""

    def __init__(self, options: Options, config: pytest.Config) -> None:
        self.options = options
        self._capture = config.pluginmanager.get_plugin("capturemanager")
        # Between tests nobody listens to our log, and Python would print it to the terminal.
        logging.getLogger("drahealth").addHandler(logging.NullHandler())
        self._stages = Stages(Console(stderr=True, highlight=False))
        self._runner = asyncio.Runner()
        self._target: Target | None = None
        self._shared = shared_file(config)
        self._environment: WorkerEnvironment | None = None
        self.failed = False
        """A scenario has failed, or could not be played."""
        self._failure: Exception | None = None
        self._stage = ""
        """What is being done about the target."""

    @classmethod
    def of(cls, config: pytest.Config) -> "Session":
        """The session of this pytest run. Raises ConfigurationError for options that make no sense."""
        if _KEY not in config.stash:
            session = config.stash[_KEY] = cls(Options.of(config), config)
            config.add_cleanup(session.close)
        return config.stash[_KEY]

    @property
    def target(self) -> Target:
        """The target, started."""
        if self._failure is not None:
            raise self._failure
        if self._target is None:
            self._target = self._start()
        return self._target

    @property
    def cannot_start(self) -> bool:
        """Starting the target was tried and failed; it is not tried again."""
        return self._failure is not None

    @property
    def is_lost(self) -> bool:
        """The target was started, and is not what it was any more."""
        try:
            if self._target:
                self._target.check()
        except HarnessError:
            return True
        return False

    @property
    def environment(self) -> WorkerEnvironment | None:
        """For the controller of a distributed run: what its workers share; None if they share nothing."""
        if self._environment is None and (shared := self.options.share(self._launch)):
            self._environment = WorkerEnvironment(shared, lambda work: self.run(self._with_signs(work)))
        return self._environment

    @property
    def _launch(self) -> Launch:
        return Launch(self._progress, lambda: self.failed, self._shared)

    def _start(self) -> Target:
        target = None
        try:
            target = self.options.make_target(self._launch)
            self.run(self._with_signs(target.start()))
        except BaseException as error:
            self._failure = error if isinstance(error, Exception) else None
            if target:
                self.run(self._with_signs(target.stop()))
            raise
        return target

    async def _with_signs(self, work: Awaitable[T]) -> T:
        """Does it, and says every few seconds which stage it is at."""
        signs = asyncio.create_task(self._give_signs())
        try:
            return await work
        finally:
            signs.cancel()

    async def _give_signs(self) -> None:
        began, stage = time.monotonic(), self._stage
        while True:
            await asyncio.sleep(_EVERY)
            if stage != self._stage:
                began, stage = time.monotonic() - _EVERY, self._stage
            if stage:
                self._progress(f"{stage} ({time.monotonic() - began:.0f} s)")

    def _progress(self, stage: str, done: int | None = None, total: int | None = None) -> None:
        """Shown at once, past pytest's capturing: getting binaries may take minutes."""
        self._stage = stage.partition(" (")[0]
        with self._capture.global_and_fixture_disabled() if self._capture else nullcontext():
            self._stages(stage, done, total)

    def run(self, work: Awaitable[T]) -> T:
        """Does it on the loop that the whole run shares."""

        async def do() -> T:
            return await work

        return self._runner.run(do())

    def begin(self, item: pytest.Item) -> Node:
        """A node for a test, begun."""
        scenario = scenario_of(getattr(item, "function", None)) or Scenario(item.name, (), item.name)
        judges, health_api = scenario.requirements, self.options.health_api
        node = Node(self.target, scenario.title, judges, self.run, needs=scenario.all_needs, health_api=health_api)
        item.stash[PLAYED] = Played(scenario, node, node.deviations, node.stale)
        self.run(node.begin())
        return node

    def has_scenarios(self) -> None:
        """This process has collected scenarios: a controller may now make what its workers share."""
        if self._shared:
            request(self._shared)

    def finish(self, node: Node) -> None:
        self.run(node.finish())

    def log_tail(self) -> str:
        """The target's last words, for the report of a failure."""
        return self.run(self._target.log_tail()) if self._target else ""

    def close(self) -> None:
        """Stops the target and the loop."""
        target, self._target = self._target, None
        try:
            if target:
                self.run(self._with_signs(target.stop()))
            if self._environment:
                self._environment.close()
        finally:
            self._runner.close()


PLAYED: pytest.StashKey[Played] = pytest.StashKey()
"""On a test: how it was played."""
