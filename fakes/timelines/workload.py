"""What holds a timeline's devices: one pod, or the pods of a ReplicaSet, one after the other."""

from typing import Literal

from pydantic import Field

from drahealth.fakes.timelines.fields import Part

HELD = "held"
"""What `expect` may say in place of a device: those that the pod holds, whichever the scheduler has chosen."""

PodVerb = Literal["keeps-failing", "running", "deleted"]


class Workload(Part):
    """The Pod whose status is checked. Its only container requests the devices with one claim."""

    kind: Literal["Pod", "ReplicaSet"] = "Pod"
    """A ReplicaSet keeps one pod: another one takes the place of one that is deleted."""
    devices: int | None = Field(default=None, ge=1)
    """Number of devices, which the scheduler selects; default: all."""
