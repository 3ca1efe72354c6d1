"""What only the report of a soak has: its time, its bounds, and what processes held. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

Resource = Literal["processes", "descriptors", "threads", "memory"]
"""What a process can leak. `processes`: the program itself and all that it has started. Memory in MB."""
LeakVerdict = Literal["no leak", "leak", "not judged"]


@dataclass(frozen=True, slots=True)
class ResourceSample:
    """What a process held at the end of a round."""

    __pydantic_config__: ClassVar[Any] = {"use_attribute_docstrings": True}

    at: float
    """Seconds since the start of the soak, without the time between its pieces."""
    descriptors: int
    threads: int
    memory: float
    """Resident memory in MB, without the pages of files such as code."""
    processes: int | None = None
    """The number of processes below it, with itself; null for a process of which this is not counted."""


@dataclass(frozen=True, slots=True)
class ResourceSeries:
    """The samples of one process. A restarted process is another series."""

    __pydantic_config__: ClassVar[Any] = {"use_attribute_docstrings": True}

    process: str
    """`kubelet`, `drivers` (the process with the fake drivers and device plugins), or `drahealth`. The latter has the
    reference, and with `--driver inline` also the drivers."""
    pid: int
    samples: tuple[ResourceSample, ...]

    def of(self, resource: Resource) -> list[tuple[float, float]]:
        """The time and the count of each sample."""
        counts = ((one.at, getattr(one, resource)) for one in self.samples)
        return [(at, float(count)) for at, count in counts if count is not None]


@dataclass(frozen=True, slots=True)
class ResourceUse:
    """The verdict on one resource of one program of a soak."""

    __pydantic_config__: ClassVar[Any] = {"use_attribute_docstrings": True}

    process: str
    """Name of the program, as in `series`."""
    resource: Resource
    verdict: LeakVerdict
    """`not judged`: no process with this name was watched for long enough."""
    per_minute: float | None
    """The growth per minute; null if it was not judged."""
    lowest: float
    highest: float
    seconds: float
    """The time that was judged, without the warm-up of each process."""
    processes: int
    """The number of processes with this name: a restart adds one."""

    def __str__(self) -> str:
        unit = " MB" if self.resource == "memory" else ""
        seen = f"{self.lowest:g} to {self.highest:g}{unit}"
        if self.per_minute is None:
            return f"{self.process} {self.resource}: {self.verdict} ({seen})"
        return f"{self.process} {self.resource}: {self.verdict} ({self.per_minute:+.2f}{unit} a minute, {seen})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Soak:
    """What only a soak has: its time, its bound, and what processes held."""

    __pydantic_config__: ClassVar[Any] = {"use_attribute_docstrings": True}

    asked: float
    """Seconds that it was to last in all."""
    lasted: float
    """Seconds that it has lasted, in all its pieces. The time is real, also if the target simulates time."""
    simulated: float
    """Seconds that the clock of the target has jumped, in addition."""
    pieces: int
    """1, and one for each `--continue`."""
    rounds: int
    """The number of rounds that ended. A continued soak begins with the next one."""
    steps: int
    """The number of steps that were played."""
    disruptions: Mapping[str, int]
    """How often the kubelet or the API server was restarted or stopped, and a Pod was started."""
    unexplained: int
    """The number of rounds that failed, and not by known issues."""
    per_round: float
    """The share of rounds with an unexplained failure, at most, with a confidence of 95 % (Clopper-Pearson)."""
    per_hour: float
    """The unexplained failures in an hour, at most, with a confidence of 95 % (Poisson)."""
    uses: tuple[ResourceUse, ...] = ()
    """The verdict on each resource of each program."""
    series: tuple[ResourceSeries, ...] = ()
    """The samples of each process."""

    @property
    def leaks(self) -> tuple[ResourceUse, ...]:
        """What leaks."""
        return tuple(one for one in self.uses if one.verdict == "leak")

    @property
    def not_judged(self) -> tuple[str, ...]:
        """The programs whose leaks were not judged."""
        return tuple(dict.fromkeys(one.process for one in self.uses if one.verdict == "not judged"))

    def lines(self) -> tuple[str, str]:
        """What was played, and the rate of unexplained failures, each as one line."""
        simulated = f", {self.simulated / 3600:.1f} hours of simulated time" if self.simulated else ""
        disruptions = "".join(f", {what}: {count}" for what, count in sorted(self.disruptions.items()))
        played = f"{self.rounds} rounds, {self.steps} steps in {self.lasted:.0f} s{simulated}{disruptions}"
        bounds = f"at most {self.per_round:.2%} of the rounds fail, and {self.per_hour:g} an hour"
        return played, f"{self.unexplained} unexplained failures; with a confidence of 95 %, {bounds}"
