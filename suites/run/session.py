"""One run of scenarios: its event loop, its target, its processes, and scenarios that overlap."""

import asyncio
import logging
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from inspect import signature
from pathlib import Path
from typing import Any, TypeVar

import pytest
from rich.console import Console

from drahealth.suites.errors import HarnessError
from drahealth.suites.judging.ledger import KnownIssue
from drahealth.suites.judging.status_content import Violation
from drahealth.suites.run.options import Options
from drahealth.suites.run.scenario import Scenario, play_of, scenario_of
from drahealth.suites.story.node import Node
from drahealth.suites.targets.progress import StagePrinter
from drahealth.suites.targets.registry import Launch, SharedEnvironment, SharedFile
from drahealth.suites.targets.target import Target

# A run distributed over processes (pytest-xdist) whose workers share an environment, such as one cluster.
#
# The controller runs no scenario. It makes the environment once a worker has collected scenarios, and before any
# runs.

_FILE = "drahealth_shared"


def shared_file(config: pytest.Config) -> SharedFile | None:
    """In a worker whose controller makes the environment: the file that describes it. Elsewhere None."""
    received: dict[str, Any] = getattr(config, "workerinput", {})
    if _FILE not in received:
        return None
    return SharedFile(Path(received[_FILE]), int(received["workerid"].removeprefix("gw")))


def request(file: SharedFile) -> None:
    """Asks the controller for the environment: this worker has scenarios to run."""
    _requested(file).touch()


def _requested(file: SharedFile) -> Path:
    return file.path.with_name("requested")


class WorkerEnvironment:
    """The environment that workers share, as the controller handles it. `run` runs coroutines of `environment`."""

    def __init__(self, environment: SharedEnvironment, run: Callable[[Awaitable[Any]], Any]) -> None:
        self._environment = environment
        self._run = run
        self._folder = tempfile.TemporaryDirectory(prefix="drahealth-")
        self._file = SharedFile(Path(self._folder.name) / "shared.json")
        self._is_made = False

    def announce(self, workerinput: dict[str, Any]) -> None:
        """Tells a worker that is about to start where the description will be."""
        workerinput[_FILE] = str(self._file.path)

    def make(self) -> None:
        """Makes the environment if a worker has requested it, or writes why that failed. Only the first call does."""
        if self._is_made or not _requested(self._file).exists():
            return
        self._is_made = True
        try:
            self._file.write(self._run(self._environment.up()))
        except HarnessError as error:
            self._file.write(error)
        except Exception as error:
            self._file.write(HarnessError(f"The environment of the workers could not be made: {error!r}"))
            raise

    def close(self) -> None:
        """Takes it down."""
        try:
            if self._is_made:
                self._run(self._environment.down())
        finally:
            self._folder.cleanup()


# Scenarios that overlap on one node: the next one starts before the last one has ended, and need not wait for its
# cleanup.
#
# On a real kubelet most scenarios wait: for a registration, a timeout, a sync, the end of a Pod. pytest still runs
# one test after the other. A test whose scenario was started ahead only waits for its end.

_CLEANUPS = 2
"""The most cleanups that run beside scenarios."""

Story = Callable[[Node], Awaitable[None]]


class Overlap:
    """The scenarios of a process that have started ahead, and the cleanups that have not ended."""

    def __init__(self) -> None:
        self._nodes: dict[pytest.Item, Node] = {}
        self._beginnings: dict[Node, asyncio.Task[None]] = {}
        self._cleanups: list[asyncio.Task[None]] = []

    def start(self, item: pytest.Item, node: Node, story: Story, loop: asyncio.AbstractEventLoop) -> None:
        """Starts the scenario of a test. It runs whenever `loop` does."""
        self._nodes[item] = node
        self._beginnings[node] = loop.create_task(_begin(node, story))

    def started(self, item: pytest.Item) -> Node | None:
        """The node of a test that was started ahead."""
        return self._nodes.pop(item, None)

    async def begun(self, node: Node) -> None:
        """Waits until it has its namespace. Raises what `Node.begin` raises."""
        await self._beginnings.pop(node)

    async def clean(self, node: Node) -> None:
        """Starts the cleanup. Waits for earlier ones if there are too many, and raises their errors."""
        self._cleanups.append(asyncio.create_task(_finish(node)))
        await self._wait(_CLEANUPS)

    async def cleaned(self) -> None:
        """Waits for the end of all cleanups. Raises their errors."""
        await self._wait(0)

    async def _wait(self, most: int) -> None:
        while len(self._cleanups) > most:
            await self._cleanups.pop(0)

    async def close(self) -> list[BaseException]:
        """Ends the scenarios whose tests were not run, after a run that stopped early. Returns errors of cleanups."""
        begun = [node for node, beginning in self._beginnings.items() if await _has_begun(beginning)]
        ends = await asyncio.gather(*self._cleanups, *map(_finish, begun), return_exceptions=True)
        return [end for end in ends if end is not None]


async def _begin(node: Node, story: Story) -> None:
    await node.begin()
    node.start(lambda: story(node))


async def _finish(node: Node) -> None:
    try:
        await node.finish()
    except Exception as error:
        error.add_note(f"This was the cleanup after {node.title!r}.")
        raise


async def _has_begun(beginning: asyncio.Task[None]) -> bool:
    await asyncio.wait([beginning])
    return not beginning.cancelled() and beginning.exception() is None


# One run of scenarios: their event loop, and the target.

T = TypeVar("T")

_EVERY = 5.0
"""Seconds between progress messages."""

_KEY: "pytest.StashKey[Session]" = pytest.StashKey()


@dataclass
class Played:
    """A scenario that has run. Its node has the history."""

    scenario: Scenario
    node: Node
    known_issues: list[KnownIssue] = field(default_factory=list)
    stale: list[KnownIssue] = field(default_factory=list)
    violations: list[Violation] = field(default_factory=list)
    """What failed in each of `known_issues`, in the same order."""


class Session:
    """Starts the target when the first scenario needs it, and stops it at the end."""

    def __init__(self, options: Options, config: pytest.Config) -> None:
        self.options = options
        self._capture = config.pluginmanager.get_plugin("capturemanager")
        # Between tests the log has no handler, and Python would print it to the terminal.
        logging.getLogger("drahealth").addHandler(logging.NullHandler())
        self._print_stage = StagePrinter(Console(stderr=True, highlight=False))
        self._runner = asyncio.Runner()
        self._overlap = Overlap()
        self._next_overlaps = False
        self._target: Target | None = None
        self._shared = shared_file(config)
        self._environment: WorkerEnvironment | None = None
        self.failed = False
        """A scenario has failed, or had an error."""
        self._failure: Exception | None = None
        self._stage = ""
        """The current stage of starting or stopping the target."""

    @classmethod
    def of(cls, config: pytest.Config) -> "Session":
        """The session of this pytest run. Raises ConfigurationError for invalid options."""
        if _KEY not in config.stash:
            session = config.stash[_KEY] = cls(Options.of(config), config)
            config.add_cleanup(session.close)
        return config.stash[_KEY]

    @property
    def target(self) -> Target:
        """The started target. The first call starts it."""
        if self._failure is not None:
            raise self._failure
        if self._target is None:
            self._target = self._start()
        return self._target

    @property
    def cannot_start(self) -> bool:
        """Whether the start of the target failed. There is no second attempt."""
        return self._failure is not None

    @property
    def is_lost(self) -> bool:
        """Whether the started target has stopped working."""
        try:
            if self._target:
                self._target.check()
        except HarnessError:
            return True
        return False

    @property
    def environment(self) -> WorkerEnvironment | None:
        """For the controller of a distributed run: the environment of its workers, or None."""
        if self._environment is None and (shared := self.options.share(self._launch)):
            self._environment = WorkerEnvironment(shared, lambda work: self.run(self._with_progress(work)))
        return self._environment

    @property
    def _launch(self) -> Launch:
        return Launch(self._progress, lambda: self.failed, self._shared)

    def _start(self) -> Target:
        target = None
        try:
            target = self.options.make_target(self._launch)
            self.run(self._with_progress(target.start()))
        except BaseException as error:
            self._failure = error if isinstance(error, Exception) else None
            if target:
                self.run(self._with_progress(target.stop()))
            raise
        return target

    async def _with_progress(self, work: Awaitable[T]) -> T:
        """Await `work`, and print its stage every few seconds."""
        progress = asyncio.create_task(self._report_progress())
        try:
            return await work
        finally:
            progress.cancel()

    async def _report_progress(self) -> None:
        began, stage = time.monotonic(), self._stage
        while True:
            await asyncio.sleep(_EVERY)
            if stage != self._stage:
                began, stage = time.monotonic() - _EVERY, self._stage
            if stage:
                self._progress(f"{stage} ({time.monotonic() - began:.0f} s)")

    def _progress(self, stage: str, done: int | None = None, total: int | None = None) -> None:
        """Print the stage at once, bypassing pytest's capture, because downloads can take minutes."""
        self._stage = stage.partition(" (")[0]
        with self._capture.global_and_fixture_disabled() if self._capture else nullcontext():
            self._print_stage(stage, done, total)

    def run(self, work: Awaitable[T]) -> T:
        """Run `work` on the event loop of the run."""

        async def do() -> T:
            return await work

        return self._runner.run(do())

    def begin(self, item: pytest.Item) -> Node:
        """Create a node for a test, with its namespace. A test that has been started ahead has its node."""
        if node := self._overlap.started(item):
            self.run(self._overlap.begun(node))
            return node
        if not self._may_overlap(item):
            self.run(self._overlap.cleaned())
        node = self._new_node(item)
        self.run(node.begin())
        return node

    def start_ahead(self, item: pytest.Item, next_item: pytest.Item | None) -> None:
        """`item` is about to run. If both may overlap, the scenario of the next test starts now, too."""
        self._next_overlaps = next_item is not None and self._may_overlap(item) and self._may_overlap(next_item)
        if next_item and self._next_overlaps and self._target:
            story = next_item.function.__wrapped__  # type: ignore[attr-defined]
            self._overlap.start(next_item, self._new_node(next_item), story, self._runner.get_loop())

    def _may_overlap(self, item: pytest.Item) -> bool:
        """Whether the scenario can run beside others on its node.

        None can if the kubelet confuses devices of device plugins with the same id (D-05), here of two scenarios.
        """
        found = scenario_of(getattr(item, "function", None))
        return (
            self.options.definition.overlaps
            and self.options.profile.owner_by_resource
            and isinstance(item, pytest.Function)
            and found is not None
            and not found.is_exclusive
            and not any(map(item.get_closest_marker, ("skip", "skipif", "xfail", "usefixtures")))
            and list(signature(item.function).parameters) == ["node"]
        )

    def _new_node(self, item: pytest.Item) -> Node:
        scenario = scenario_of(getattr(item, "function", None)) or Scenario(item.name, (), item.name)
        checked, way, target = scenario.requirements, play_of(item, self.options), self.target
        if way.node:
            target = self.run(target.on(way.node, self.options.configuration.judged_nodes[way.node].profile))
        node = Node(
            target,
            scenario.title,
            checked,
            self.run,
            needs=scenario.all_needs,
            health_api=way.api,
            fixed=self.options.fixed,
            api_server=self.options.api_server,
        )
        item.stash[PLAYED] = Played(scenario, node, node.deviations, node.stale, node.known_violations)
        return node

    def has_scenarios(self) -> None:
        """This process has collected scenarios, so a controller may now create the environment of the workers."""
        if self._shared:
            request(self._shared)

    def finish(self, node: Node) -> None:
        """Clean up after a test. If the next one overlaps, it need not wait for the end of the cleanup."""
        if self._next_overlaps:
            self.run(self._overlap.clean(node))
        else:
            try:
                self.run(self._overlap.cleaned())
            finally:
                self.run(node.finish())

    def log_tail(self) -> str:
        """The last log lines of the target, for the report of a failure."""
        return self.run(self._target.log_tail()) if self._target else ""

    def close(self) -> None:
        """Stop the target and the event loop."""
        target, self._target = self._target, None
        try:
            if target:
                try:
                    for error in self.run(self._overlap.close()):
                        self._progress(f"a cleanup failed: {error}")
                finally:
                    self.run(self._with_progress(target.stop()))
            if self._environment:
                self._environment.close()
        finally:
            self._runner.close()


PLAYED: pytest.StashKey[Played] = pytest.StashKey()
"""On a pytest item: the scenario that has run."""
