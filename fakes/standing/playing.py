"""A timeline that is played on a driver of a file, once a kubelet has registered it: devices that fail on schedule.

What pods are to show is looked for in those of the node that show a device of the driver, whosever they are; with a pod
of its own `drahealth play` judges it.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

from drahealth.fakes.complaint import Complaint
from drahealth.fakes.hardware.control import DriverOptions
from drahealth.fakes.hardware.driver import FakeDriver
from drahealth.fakes.hardware.inventories import inventory_of
from drahealth.fakes.standing.driver_stage import DriverStage, Tell
from drahealth.fakes.standing.witness import Witness
from drahealth.fakes.timelines.play import play
from drahealth.fakes.timelines.story import Story, stories
from drahealth.fakes.timelines.workload import HELD
from drahealth.fakes.user_files import FileError


def load_stories(path: Path, drivers: Sequence[DriverOptions], seed: int | None) -> list[Story]:
    """Those of a timeline's file, for the one driver that there is. Raises Complaint for what cannot be played here."""
    if len(drivers) != 1:
        raise Complaint(f"a timeline is played on one driver, and there are {len(drivers)}; give each a process")
    (options,) = drivers
    try:
        found = stories(path, seed=seed, inventory=inventory_of(options))
    except FileError as error:
        raise Complaint(str(error)) from None
    except OSError as error:
        raise Complaint(f"{error.filename or path} cannot be read: {error.strerror}") from None
    if odd := dict.fromkeys(said for story in found for said in _odd(story, options)):
        raise Complaint("\n".join(f"{path}: {said}" for said in odd))
    return found


def _odd(story: Story, options: DriverOptions) -> Iterator[str]:
    """What a process cannot do of it."""
    use = story.timeline.use
    for what, wanted, has in (("catalogue", use.catalogue, options.catalogue), ("policy", use.policy, options.policy)):
        if wanted != has:
            yield f"{story.timeline.name} has the {what} {wanted}, and the driver {has}; give --{what} {wanted}"
    known = {device.path for device in inventory_of(options).devices}
    for action in (*story.plan.actions, *story.plan.always):
        if action.verb in ("kubelet", "plugin", "pod"):
            yield f"{action.step}: a process plays no `{action.verb}`; leave the step out"
        if action.verb == "expect" and "pod_writes" in action.what:
            yield f"{action.step}: a process does not count writes of statuses; leave `pod_writes` out"
        if action.verb == "expect" and action.what.get("of") == "plugin":
            yield f"{action.step}: a process has no device plugin in its timeline; leave `of: plugin` out"
        if action.device not in ("", HELD, *known):
            yield f"{action.step}: the driver has no device {action.device}"


async def play_on(driver: FakeDriver, told: Sequence[Story], tell: Tell, witness: Witness, speed: float = 1.0) -> None:
    """One story after the other, from when the driver is registered. What waits for something waits until it comes."""
    await driver.wait_registered()
    for story in told:
        name = {"story": story.timeline.name, "seed": story.plan.seed, "plan": story.plan.hash}
        tell(driver.options.name, {"event": "story-begins", **name})
        await play(story.plan, DriverStage(driver, story, tell, witness, speed), speed=speed, patient=True)
        tell(driver.options.name, {"event": "story-ends", **name})
