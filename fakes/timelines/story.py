"""A timeline with its devices and its plan: what is needed to play it."""

from dataclasses import dataclass
from pathlib import Path

from drahealth.fakes.inventory.devices import Inventory
from drahealth.fakes.inventory.file import group_errors, inventory_of, load_inventory
from drahealth.fakes.program.user_files import Document, FileError, Finding, read
from drahealth.fakes.timelines.actions import Action
from drahealth.fakes.timelines.check import judged
from drahealth.fakes.timelines.load import Loaded, load_parts
from drahealth.fakes.timelines.model import Timeline
from drahealth.fakes.timelines.plan import Plan

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
    found, (parts, problems) = list[Story](), load_parts(read(path), str(path))
    for part in parts:
        devices, wrong = _devices(part, path.parent, inventory)
        plan, odd = judged(part, devices, seed)
        problems += [*part.problems, *part.document.problems([*wrong, *odd])]
        if devices is not None and plan is not None:
            found.append(Story(part.timeline, devices, plan, part.document))
    if problems:
        raise FileError(str(path), problems)
    return found


def _devices(loaded: Loaded, folder: Path, otherwise: Inventory | None) -> tuple[Inventory | None, list[Finding]]:
    """The devices of a timeline, and their errors."""
    named, place = loaded.timeline.use.inventory, ("use", "inventory")
    use = loaded.document.data.get("use")
    if wrong := [*group_errors(use.get("inventory") if isinstance(use, dict) else None, place)]:
        return None, wrong
    if named is None:
        return otherwise or Inventory.of(DEVICES), []
    if not isinstance(named, str):
        return inventory_of(named), []
    try:
        return load_inventory(folder / named), []
    except FileError as error:
        return None, [(place, f"{named}: {problem}") for problem in error.problems]
    except OSError as error:
        return None, [(place, f"{named} cannot be read: {error.strerror}")]
