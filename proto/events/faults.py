"""What fault adapters do to the devices and to the backends of a driver under test."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from drahealth.proto.events.checks import CHECK

ActionOutcome = Literal["done", "failed", "timed out"]
"""How an action of a fault adapter ended."""


@dataclass(frozen=True, slots=True)
class FaultInjected:
    """A fault adapter broke a device, or did the action `change` of the fault while the device was broken.

    The time of the event is the end of the action.
    """

    event: ClassVar[str] = "fault-injected"
    emitters: ClassVar[tuple[str, ...]] = (CHECK,)

    process: str
    fault: str
    """Name of the fault in the driver profile."""
    step: Literal["break", "change"]
    """`break`: the device breaks. `change`: it stays broken, and the driver must report another message or health."""
    pool: str
    device: str
    """Name of the device in its pool."""
    action: str
    """What the adapter did, such as `write {driver_dir}/health`."""
    grade: Literal["asked", "forced"]
    """Whether the adapter asked the driver to report a fault, or caused a fault outside the driver."""
    health: str
    """What the driver must report, such as Unhealthy."""
    settle: float
    """Seconds within which the driver must report this health."""
    outcome: ActionOutcome
    """How the action ended: done, failed or timed out."""
    seconds: float
    """Duration of the action."""
    problem: str = ""
    """Why the outcome is not `done`; empty for `done`."""
    on_error: Literal["NOT_TESTED", "FAIL"] = "NOT_TESTED"
    """NOT_TESTED or FAIL. If the action fails, the checks that judge this action have this verdict."""
    on_no_effect: Literal["NOT_TESTED", "FAIL"] = "FAIL"
    """NOT_TESTED or FAIL. If the driver does not report this health, the checks that judge this action have this
    verdict."""
    shows: tuple[str, ...] = ()
    """The healths that the driver may report from then on, such as those of two faults; empty if `health` says it."""
    taint: str = ""
    """The taint that the driver must publish for the device while the fault lasts, as KEY:EFFECT or KEY=VALUE:EFFECT.
    Empty for none."""


@dataclass(frozen=True, slots=True)
class FaultCleared:
    """A fault adapter cleared the fault of a device. The time of the event is the end of the action."""

    event: ClassVar[str] = "fault-cleared"
    emitters: ClassVar[tuple[str, ...]] = (CHECK,)

    process: str
    fault: str
    pool: str
    device: str
    """Name of the device in its pool."""
    action: str
    """What the adapter did; `restart` if the driver was started again."""
    settle: float
    """Seconds within which the driver must report the device as healthy."""
    outcome: ActionOutcome
    """How the action ended: done, failed or timed out."""
    seconds: float
    problem: str = ""
    """Why the outcome is not `done`; empty for `done`."""
    on_error: Literal["NOT_TESTED", "FAIL"] = "NOT_TESTED"
    shows: tuple[str, ...] = ()
    """The healths that the driver may report from then on, if another fault of the device lasts; empty for Healthy."""


@dataclass(frozen=True, slots=True)
class FaultStage:
    """A stage of the experiment `fault-plan` begins: actions on several devices, side by side, at one moment."""

    event: ClassVar[str] = "fault-stage"
    emitters: ClassVar[tuple[str, ...]] = (CHECK,)

    process: str
    moment: str
    """What happens to the driver meanwhile, such as `prepare` (docs/reference/driver-requirements.md)."""
    devices: tuple[str, ...]
    """The devices with an action, as POOL/NAME."""
    changes: tuple[str, ...]
    """The change of health that each of these devices is in, such as `recover`."""
    health_apis: tuple[str, ...]
    """The health APIs that are watched."""
    subscribers: tuple[str, ...]
    """When the streams are opened, such as `before` and `after`."""


@dataclass(frozen=True, slots=True)
class FaultGap:
    """A part of the space of faults that the experiment `fault-plan` could not cause."""

    event: ClassVar[str] = "fault-gap"
    emitters: ClassVar[tuple[str, ...]] = (CHECK,)

    process: str
    dimension: str
    """Such as `moment`."""
    value: str
    """The value of the dimension, such as `prepare`."""
    reason: str
    """Why the driver profile or the driver could not cause it."""


@dataclass(frozen=True, slots=True)
class BackendSwitched:
    """drahealth killed a scripted backend of a driver, or started it again."""

    event: ClassVar[str] = "backend-switched"
    emitters: ClassVar[tuple[str, ...]] = (CHECK,)

    process: str
    script: str
    """File name of the scripted backend."""
    running: bool
    """Whether the backend runs now."""
