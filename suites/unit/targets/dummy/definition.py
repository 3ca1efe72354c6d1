"""A target that exists for tests: the reference under another name, without an API server that can be stopped."""

from collections.abc import Iterator

from drahealth.suites.targets.capabilities import Capability
from drahealth.suites.targets.option import Option, Values, choice
from drahealth.suites.targets.progress import Progress
from drahealth.suites.targets.reference.target import ReferenceConfiguration
from drahealth.suites.targets.registry import Check, Configuration, TargetDefinition

COLOUR = Option(
    "colour", "COLOUR", "Colour of the dummy: red (default) or blue.", choice("red", "blue"), ("run", "doctor")
)


def _configure(values: Values) -> Configuration:
    return ReferenceConfiguration()


def _examine(values: Values, progress: Progress) -> Iterator[Check]:
    yield Check("paint", True, values.get(COLOUR) or "red")


DEFINITION = TargetDefinition(
    name="dummy",
    title="a dummy",
    summary="A target that exists for tests.",
    options=(COLOUR,),
    missing={Capability.STOP_API_SERVER: "its API server cannot be stopped"},
    configure=_configure,
    examine=_examine,
)
