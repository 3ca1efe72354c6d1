"""Events of a timeline that runs on a driver. `step` is the place of a step in the file, such as timeline.2."""

from dataclasses import dataclass
from typing import Any, ClassVar

from drahealth.proto.events.programs import SERVE


@dataclass(frozen=True, slots=True)
class TimelineStarted:
    """A timeline begins."""

    event: ClassVar[str] = "timeline-started"
    emitters: ClassVar[tuple[str, ...]] = (SERVE,)

    driver: str
    timeline: str
    """Name of the timeline."""
    seed: int
    plan: str
    """Hash of the plan. The same timeline, devices and seed give the same hash."""


@dataclass(frozen=True, slots=True)
class TimelineEnded:
    """A timeline has ended."""

    event: ClassVar[str] = "timeline-ended"
    emitters: ClassVar[tuple[str, ...]] = (SERVE,)

    driver: str
    timeline: str
    """Name of the timeline."""
    seed: int
    plan: str
    """Hash of the plan."""


@dataclass(frozen=True, slots=True)
class StepStarted:
    """A step of a timeline is due."""

    event: ClassVar[str] = "step-started"
    emitters: ClassVar[tuple[str, ...]] = (SERVE,)

    driver: str
    step: str
    due: float
    """Planned time of the step, in seconds since the beginning of the timeline."""
    do: str
    """Kind of the step, such as inject or expect."""
    what: Any = None
    """Arguments of the step."""
    device: str = ""
    when: dict[str, Any] | None = None
    """Condition that the step waits for; null if there is none."""


@dataclass(frozen=True, slots=True)
class StepDone:
    """A step of a timeline has a result, such as the faults that a recovery action does not clear."""

    event: ClassVar[str] = "step-done"
    emitters: ClassVar[tuple[str, ...]] = (SERVE,)

    driver: str
    step: str
    result: str


@dataclass(frozen=True, slots=True)
class StepFailed:
    """A step of a timeline failed. The timeline continues."""

    event: ClassVar[str] = "step-failed"
    emitters: ClassVar[tuple[str, ...]] = (SERVE,)

    driver: str
    step: str
    where: str
    why: str


@dataclass(frozen=True, slots=True)
class ExpectationMet:
    """Pods show the expected status of a step."""

    event: ClassVar[str] = "expectation-met"
    emitters: ClassVar[tuple[str, ...]] = (SERVE,)

    driver: str
    step: str
    device: str
    expected: str
    note: str = ""
    """Why this shows little: no newer status than that of before an earlier step met the expectation."""


@dataclass(frozen=True, slots=True)
class ExpectationFailed:
    """Pods did not show the expected status in time, or the status changed during the time `holds` of the step."""

    event: ClassVar[str] = "expectation-failed"
    emitters: ClassVar[tuple[str, ...]] = (SERVE,)

    driver: str
    step: str
    where: str
    device: str
    expected: str
    why: str
