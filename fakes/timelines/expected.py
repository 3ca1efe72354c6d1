"""Whether what a pod shows of a device is what a timeline expects. Pure."""

from fnmatch import fnmatchcase

from drahealth.fakes.timelines.actions import Action, Expect
from drahealth.fakes.timelines.workload import HELD
from drahealth.proto.values import ResourceHealth


def fits(found: ResourceHealth, expect: Expect) -> bool:
    """Whether its health and message are the expected ones."""
    if expect.health not in (None, found.health):
        return False
    message = expect.message
    return message is None or (fnmatchcase(found.message, message) if message else not found.message)


def sought(action: Action, expect: Expect) -> str:
    """What it expects, in words."""
    words = ["its devices" if expect.device == HELD else expect.device]
    words += ["of the device plugin"] if action.of == "device-plugin" else []
    words += [str(expect.health or ""), repr(expect.message) if expect.message is not None else ""]
    words += [f"with at most {expect.pod_writes} status writes"] if expect.pod_writes is not None else []
    return " ".join(filter(None, words))


def already_true(old: Action) -> str:
    """The note on an expectation that was met by a status from before this step."""
    verb = old.verb.replace("_", " ")
    return f"already true before the step {old.step} ({verb}); add `holds`, or expect something new"
