"""Runs trials side by side, each in a process of its own, and keeps the results."""

import asyncio
import hashlib
import json
import os
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Protocol

import psutil

from drahealth.fakes.waiting import cancel_and_wait
from drahealth.suites.errors import HarnessError
from mutation.coverage_map import CoverageMap, read_map
from mutation.faults import Fault
from mutation.hand import ROOT, DoesNotApplyError, runs_at_import
from mutation.trial import FAULT, NO_IMPORT, TOO_LONG

# When a trial hangs: a scenario computes for too long, or the trial waits for too long without computing. Pure.
#
# Real time alone does not tell: on a loaded machine a trial that survives can take minutes. Its processor time hardly
# depends on the load. A survivor passes its scenarios, so it computes about as much as the reference without a
# change. So the limit of each scenario depends on the processor time that it needs on the reference.

_STEP = 2.0
"""A trial that only waits still computes a little, because some tasks look around every second."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a trial."""

    times: float = 4.0
    """A survivor may compute more than the reference, for example if it retries without a pause."""
    more: float = 10.0
    """Seconds of a processor in addition. They are for scenarios that fail, because most need only 0.1 s to pass."""
    waiting: float = 45.0
    """Real seconds without two seconds of computing. A scenario fails if it waits for 30 s (`RECEIPT_LIMIT`)."""

    def computing(self, needed: float) -> float:
        """The most processor time of a scenario, or of the imports, that needs this time on the reference."""
        return self.times * needed + self.more


LIMITS = Limits()
"""The limits of a run."""


@dataclass(slots=True)
class Patience:
    """Follows one trial: its processor time, and when it last had another two seconds of it."""

    waiting: float
    """The limit."""
    computed: float = 0.0
    grew: float = 0.0

    def ends(self, computed: float, now: float) -> bool:
        """Whether the trial only waits: after `computed` seconds of a processor, at `now` seconds since its start."""
        if computed >= self.computed + _STEP:
            self.computed, self.grew = computed, now
        return now - self.grew > self.waiting


# Runs trials side by side, each in a process of its own, and keeps the results so that a later run continues.

_PARTS = ("manager", "fakes", "proto", "suites/kep", "suites/story", "suites/judging", "suites/run", "suites/targets")
_FAILED = 1
_LOOK = 1.0
"""Seconds between two looks at a trial."""


class Change(Protocol):
    """A change of one module."""

    @property
    def path(self) -> str:
        """The module, relative to the checkout."""

    @property
    def key(self) -> str:
        """What names it among all changes."""

    @property
    def trial_key(self) -> str:
        """What names its result."""

    def changed(self, source: str) -> str:
        """The module with the change. Raises DoesNotApplyError."""

    def lines(self, source: str) -> range:
        """The lines of the module that it changes."""


Tried = Change | Fault


@dataclass(frozen=True, slots=True)
class Trial:
    """The result of one change."""

    key: str
    outcome: str
    """killed, survived, not covered, does not apply, or no import; error: the reference stopped working, and no
    scenario could be judged; hangs; harness error: pytest itself failed."""
    requirements: tuple[str, ...] = ()
    """For each requirement: the number of changes whose first failing scenario reports this requirement as violated."""
    scenario: str = ""
    """The first failing scenario."""
    reason: str = ""
    """The last line of output, if it was neither killed nor survived."""


def digest() -> str:
    """What names the present state of the reference and of the scenarios."""
    found = hashlib.sha256()
    for part in _PARTS:
        for path in sorted((ROOT / part).rglob("*")):
            if path.suffix in (".py", ".toml"):
                found.update(str(path.relative_to(ROOT)).encode() + path.read_bytes())
    return found.hexdigest()[:16]


class Results:
    """The results so far, in a file of JSON lines. A line that was cut short is ignored."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self.by_key: dict[str, Trial] = {}
        text = file.read_text() if file.exists() else ""
        if text and not text.endswith("\n"):
            file.write_text(text + "\n")
        for line in text.splitlines():
            try:
                fields = json.loads(line)
            except ValueError:
                continue
            found = Trial(**{**fields, "requirements": tuple(fields["requirements"])})
            self.by_key[found.key] = found

    def add(self, trial: Trial) -> None:
        """Adds a result."""
        self.by_key[trial.key] = trial
        with self._file.open("a") as file:
            file.write(json.dumps(asdict(trial)) + "\n")


async def map_of(file: Path) -> CoverageMap:
    """The map in this file; if there is none, or one that is cut off or of older code, it is made first.

    Raises HarnessError as `make_map` does.
    """
    try:
        return read_map(file)
    except (FileNotFoundError, ValueError):
        sys.stdout.write("running all scenarios once, to see which lines each of them runs\n")
        sys.stdout.flush()
        return await make_map(file)


async def make_map(file: Path) -> CoverageMap:
    """Runs all scenarios without a change, and writes the map. A cancelled call ends its process.

    Raises HarnessError if a scenario fails.
    """
    async with _program("coverage_map", str(file)) as process:
        if await process.wait():
            raise HarnessError("the scenarios must pass without a change", "correct the failed ones")
    return read_map(file)


async def run_all(
    wanted: Sequence[Tried],
    covered: CoverageMap,
    results: Results,
    workers: int,
    done: Callable[[Tried, Trial], None],
    limits: Limits = LIMITS,
) -> None:
    """Tries all changes without a result. A cancelled run ends all its processes."""
    waiting = iter([one for one in wanted if one.trial_key not in results.by_key])

    async def work() -> None:
        for change in waiting:
            if isinstance(change, Fault):
                trial = await _try_fault(change, covered, results, limits)
            else:
                trial = await _try(change, covered, limits)
            if trial.outcome != "harness error":  # it is tried again
                results.add(trial)
            done(change, trial)

    async with asyncio.TaskGroup() as group:
        for _ in range(workers):
            group.create_task(work())


async def _try(change: Change, covered: CoverageMap, limits: Limits) -> Trial:
    key, source = change.trial_key, (ROOT / change.path).read_text()
    try:
        text = change.changed(source)
    except DoesNotApplyError as error:
        return Trial(key, "does not apply", reason=str(error))
    lines = change.lines(source)
    scenarios = covered.scenarios(change.path, lines, at_import=runs_at_import(source, lines))
    if not scenarios:
        return Trial(key, "not covered")
    with tempfile.TemporaryDirectory(prefix="drahealth-mutant-") as folder:
        changed = Path(folder) / "module.py"
        changed.write_text(text)
        return await _trial(key, [change.path, str(changed)], scenarios, covered, limits)


async def _try_fault(fault: Fault, covered: CoverageMap, results: Results, limits: Limits) -> Trial:
    """Runs all scenarios, those first that have caught most faults in their time."""
    caught = Counter(trial.scenario for trial in results.by_key.values())
    order = sorted(covered.seconds, key=lambda name: (-(1 + caught[name]) / (0.02 + covered.processor[name]), name))
    return await _trial(fault.trial_key, [FAULT, fault.key], order, covered, limits)


async def _trial(key: str, what: list[str], scenarios: Sequence[str], covered: CoverageMap, limits: Limits) -> Trial:
    with tempfile.TemporaryDirectory(prefix="drahealth-mutant-") as folder:
        report = Path(folder) / "report.json"
        words = [*what, str(report), str(limits.computing(covered.imports))]
        words += [f"{name}={limits.computing(covered.processor[name])}" for name in scenarios]
        async with _program("trial", *words, stdout=asyncio.subprocess.PIPE) as process:
            output = await _output(process, Patience(limits.waiting))
        if output is None:
            return Trial(key, "hangs", reason=f"it waits for {limits.waiting:g} s without computing")
        assert process.returncode is not None
        if process.returncode == -TOO_LONG:
            return Trial(key, "hangs", reason=f"it computes {limits.times:g} times as long as the reference, and more")
        return _judged(key, process.returncode, report.read_text() if report.exists() else "", output)


@asynccontextmanager
async def _program(name: str, *words: str, stdout: int | None = None) -> AsyncIterator[asyncio.subprocess.Process]:
    """A program of this package, in a session of its own. It ends at the end of the block at the latest."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", f"mutation.{name}", *words),
        env={**os.environ, "PYTHONPATH": str(ROOT / "ci" / "mutants")},
        stdout=stdout,
        stderr=asyncio.subprocess.STDOUT if stdout else None,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):  # it has ended a moment ago
                os.killpg(process.pid, signal.SIGKILL)
        await process.wait()


async def _output(process: asyncio.subprocess.Process, patience: Patience) -> str | None:
    """The whole output; None if the process only waits."""
    reading, clock = asyncio.create_task(process.communicate()), asyncio.get_running_loop()
    began = clock.time()
    try:
        while not (await asyncio.wait([reading], timeout=_LOOK))[0]:
            if patience.ends(_computed(process.pid), clock.time() - began):
                return None
        return reading.result()[0].decode()
    finally:
        await cancel_and_wait(reading)


def _computed(pid: int) -> float:
    """The processor time of a process, in seconds."""
    with suppress(psutil.NoSuchProcess):
        times = psutil.Process(pid).cpu_times()
        return float(times.user + times.system)
    return 0.0


def _judged(key: str, code: int, report: str, output: str) -> Trial:
    last = next((line for line in reversed(output.splitlines()) if line.strip()), "")
    if code == 0:
        return Trial(key, "survived")
    if code == NO_IMPORT:
        return Trial(key, "no import", reason=last)
    failed = [one for one in json.loads(report)["scenarios"] if one["outcome"] == "failed"] if report else []
    if code != _FAILED:
        return Trial(key, "harness error", reason=last)
    if not failed:
        return Trial(key, "error", reason=last)
    return Trial(key, "killed", tuple(failed[0]["broken"]), failed[0]["name"])


def sources(paths: Iterable[str]) -> dict[str, str]:
    """The text of each module by its path."""
    return {path: (ROOT / path).read_text() for path in paths}
