"""What the benchmarks on targets share: the targets and flags of the command line, runs in turn, and the table."""

import argparse
import asyncio
import gc
import logging
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

import drahealth.suites.kep  # noqa: F401 -- first: it quiets gRPC
from drahealth.suites.errors import ConfigurationError
from drahealth.suites.run.options import Options
from drahealth.suites.story.node import Node
from drahealth.suites.targets import registry
from drahealth.suites.targets.registry import Launch

Times = dict[str, list[float]]
"""Milliseconds by what was done."""

Measure = Callable[[Node, argparse.Namespace], Awaitable[Times]]


class HealthFile:
    """A manager's health file, looked at from outside."""

    def __init__(self, root: Path) -> None:
        self._path = root / "dra_health_state"
        self._last = (0, 0)

    def holds(self, message: str, count: int) -> bool:
        """Whether so many devices have this message in it now; False for a file that was looked at before."""
        if not self._path.exists():
            return False
        found = self._path.stat()
        last, self._last = self._last, (found.st_ino, found.st_mtime_ns)
        return last != self._last and self._path.read_bytes().count(f'"{message}"'.encode()) == count

    async def comes_to_hold(self, message: str, count: int) -> float:
        """The time when it was seen to."""
        while not self.holds(message, count):  # noqa: ASYNC110  (nobody tells of it)
            await asyncio.sleep(0.001)
        return time.monotonic()


def parser(about: str, targets: Sequence[str]) -> argparse.ArgumentParser:
    """The arguments that each benchmark takes: targets, how many runs, and the flags of `drahealth run`."""
    made = argparse.ArgumentParser(description=about)
    made.add_argument("targets", nargs="*", default=targets, metavar="TARGET")
    made.add_argument("--runs", type=int, default=1, help="the targets in turn, so often; medians over the runs")
    for flag in _flags():
        made.add_argument(f"--{flag}", metavar="VALUE")
    return made


def compare(measure: Measure, arguments: argparse.Namespace) -> None:
    """Measures on each target, as often as asked for, and prints the table."""
    logging.getLogger("drahealth").setLevel(logging.ERROR)  # that a driver goes at the end is nothing to tell
    flags = {f: v for f in _flags() if (v := getattr(arguments, f.replace("-", "_"))) is not None}
    options = {target: _options_of(target, flags) for target in arguments.targets}
    runs: dict[str, list[Times]] = defaultdict(list)
    for _ in range(arguments.runs):
        for target in arguments.targets:
            runs[target].append(asyncio.run(_run(options[target], measure, arguments)))
    _print({target: _figures(found) for target, found in runs.items()})


async def _run(options: Options, measure: Measure, arguments: argparse.Namespace) -> Times:
    """On a target that is started and stopped for it."""
    target = options.make_target(Launch())
    try:
        await target.start()
        gc.freeze()  # the reference lives in this process, and need not look through what else does
        node = Node(target, "benchmark", (), lambda work: work)
        await node.begin()
        try:
            return await measure(node, arguments)
        finally:
            await node.finish()
    finally:
        await target.stop()


def _flags() -> list[str]:
    """The names of the options of all targets."""
    return [option.name for option, _ in registry.options("run")]


def _options_of(target: str, flags: Mapping[str, str]) -> Options:
    """Those of the flags that the target takes."""
    taken = {"target": target}
    for name, value in flags.items():
        try:
            Options.make({**taken, name: value})
            taken[name] = value
        except ConfigurationError as error:
            sys.stderr.write(f"{target}: without --{name} ({error})\n")
    return Options.make(taken)


Figures = dict[str, tuple[int, float, float]]
"""By what was done: how many times in each run, median and 99th percentile, each the median over the runs."""


def _figures(runs: Sequence[Times]) -> Figures:
    def over_runs(figure: Callable[[Sequence[float]], float], what: str) -> float:
        return statistics.median(figure(run[what]) for run in runs)

    return {
        what: (len(times), over_runs(statistics.median, what), over_runs(_p99, what)) for what, times in runs[0].items()
    }


def _p99(times: Sequence[float]) -> float:
    return statistics.quantiles(times, n=100, method="inclusive")[-1] if len(times) > 1 else times[0]


def _print(found: Mapping[str, Figures]) -> None:
    """Ratios are against the first target, usually the reference."""
    first = next(iter(found.values()))
    sys.stdout.write(
        f"{'what':34}{'target':12}{'runs':>6}{'median ms':>11}{'p99 ms':>10}"
        f"{'median/reference':>18}{'p99/reference':>15}\n"
    )
    for what in first:
        for target, figures in found.items():
            times, median, p99 = figures[what]
            ratios = f"{median / first[what][1]:18.1f}{p99 / first[what][2]:15.1f}"
            sys.stdout.write(f"{what:34}{target:12}{times:6}{median:11.2f}{p99:10.2f}{ratios}\n")
