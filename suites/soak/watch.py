"""Counts what the processes of a soak hold: this one, the fake drivers, and the kubelet."""

import gc
from collections.abc import Iterable, Iterator

import psutil

from drahealth.suites.report.soak import ResourceSample, ResourceSeries
from drahealth.suites.soak.leaks import thinned

OWN = "drahealth"
"""This program. It has the reference, and with `--driver inline` also the drivers."""
_DRIVERS = "drahealth.fakes.serve.session_process"
_MB = 1e6


class Watch:
    """The samples of each process so far. It adds to those of the earlier pieces of a continued soak."""

    def __init__(self, earlier: Iterable[ResourceSeries] = ()) -> None:
        self._earlier = tuple(earlier)
        self._samples: dict[tuple[str, int, float], tuple[ResourceSample, ...]] = {}

    def sample(self, at: float) -> None:
        """Take a sample of each process. `at` are seconds since the start of the soak."""
        gc.collect()  # of this process, what is unreachable is no leak
        for name, process in _watched():
            try:
                key = name, process.pid, process.create_time()
                sample = _sample(name, process, at)
            except (psutil.NoSuchProcess, psutil.AccessDenied):  # it has just ended, or belongs to another user
                continue
            self._samples[key] = thinned((*self._samples.get(key, ()), sample))

    def series(self) -> tuple[ResourceSeries, ...]:
        """Those of all processes."""
        now = (ResourceSeries(name, pid, samples) for (name, pid, _), samples in self._samples.items())
        return (*self._earlier, *now)


def _watched() -> Iterator[tuple[str, psutil.Process]]:
    own = psutil.Process()
    yield OWN, own
    for process in own.children(recursive=True):
        try:
            words = process.cmdline()
        except psutil.Error:
            continue
        if words and words[0].rpartition("/")[2] == "kubelet":
            yield "kubelet", process
        elif _DRIVERS in words and "-m" in words[:2]:
            yield "drivers", process


def _sample(name: str, process: psutil.Process, at: float) -> ResourceSample:
    with process.oneshot():
        memory = process.memory_info()
        return ResourceSample(
            at=round(at, 2),
            descriptors=process.num_fds(),
            threads=process.num_threads(),
            memory=round((memory.rss - memory.shared) / _MB, 3),  # code is read page by page, and never leaks
            processes=1 + len(process.children(recursive=True)) if name == OWN else None,
        )
