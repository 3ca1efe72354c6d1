"""A timeline with its devices and its plan: what is needed to play it."""

from dataclasses import dataclass
from pathlib import Path

from drahealth.fakes.inventory import Inventory
from drahealth.fakes.inventory_file import inventory_of, load_inventory
from drahealth.fakes.timelines.check import checked_plan, unknown
from drahealth.fakes.timelines.load import Loaded, load_file
from drahealth.fakes.timelines.model import Timeline
from drahealth.fakes.timelines.plan import Action, Plan
from drahealth.fakes.user_files import Document, FileError, Problem

DEVICES = 2
"""GPUs that there are where nobody says."""


@dataclass(frozen=True, slots=True)
class Story:
    """One timeline, ready to be played."""

    timeline: Timeline
    inventory: Inventory
    plan: Plan
    document: Document | None = None
    """What it was read from; None: it was made in Python."""

    def where(self, action: Action) -> str:
        """The step that the action is of: `bus.timeline.yaml line 6, timeline.1`; without a file just the step."""
        if self.document is None:
            return action.step
        return f"{Path(self.document.source).name} line {self.document.line(action.place)}, {action.step}"


def stories(path: Path, *, seed: int | None = None, inventory: Inventory | None = None) -> list[Story]:
    """Those of a file, in its order. `inventory` is for timelines that name none.

    Raises FileError with all that makes no sense, OSError for what cannot be read.
    """
    found, problems = list[Story](), list[Problem]()
    for loaded in load_file(path, unknown):
        try:
            devices = _devices(loaded, path.parent, inventory)
            found.append(Story(loaded.timeline, devices, checked_plan(loaded, devices, seed), loaded.document))
        except FileError as error:
            if error.source != str(path):
                raise  # an inventory's own
            problems += error.problems
    if problems:
        raise FileError(str(path), problems)
    return found


def _devices(loaded: Loaded, folder: Path, otherwise: Inventory | None) -> Inventory:
    named = loaded.timeline.use.inventory
    if named is None:
        return otherwise or Inventory.of(DEVICES)
    if isinstance(named, str):
        try:
            return load_inventory(folder / named)
        except OSError as error:
            missing = (("use", "inventory"), f"{named} cannot be read: {error.strerror}")
            raise loaded.document.error([*unknown(loaded.timeline), missing]) from None
    try:
        return inventory_of(named)
    except ValueError as error:
        raise loaded.document.error([*unknown(loaded.timeline), (("use", "inventory"), str(error))]) from None
