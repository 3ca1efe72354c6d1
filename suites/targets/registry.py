"""The targets: one line each. All that concerns one target is in its folder (see `definition`)."""

from collections.abc import Iterable, Iterator, Mapping
from importlib import import_module
from typing import Any, NamedTuple

from drahealth.suites.errors import ConfigurationError
from drahealth.suites.targets.capabilities import Capability
from drahealth.suites.targets.definition import TargetDefinition
from drahealth.suites.targets.option import Command, Option, Values

FOLDERS = {
    "reference": "drahealth.suites.targets.reference",
    "kubelet": "drahealth.suites.targets.kubelet",
    "kind": "drahealth.suites.targets.kind",
}
"""The package of each target by its name; the first one is the default."""


class Offered(NamedTuple):
    """An option, and the names of the targets that take it."""

    option: Option[Any]
    targets: tuple[str, ...]


def default() -> str:
    """The name of the target that is used if none is named."""
    return next(iter(FOLDERS))


def definition(name: str, needs: Capability | None = None) -> TargetDefinition:
    """The target with this name. Raises ConfigurationError for an unknown one, and for one without the capability."""
    found = {target.name: target for target in definitions(needs)}
    if name not in found:
        raise ConfigurationError(f"--target must be one of {', '.join(found)}, got {name!r}")
    return found[name]


def definitions(needs: Capability | None = None) -> Iterator[TargetDefinition]:
    """All targets, or those with the capability, in the order of the registry."""
    for package in FOLDERS.values():
        found: TargetDefinition = import_module(f"{package}.definition").DEFINITION
        if needs is None or found.can(needs):
            yield found


def options(command: Command) -> Iterator[Offered]:
    """The options of all targets for a command, each once. Targets that share an option declare the same object."""
    found: dict[str, Offered] = {}
    for target in definitions():
        for option in target.options_of(command):
            known = found.get(option.name, Offered(option, ()))
            if known.option != option:
                raise ValueError(f"{' and '.join(known.targets)} and {target.name} declare --{option.name} differently")
            found[option.name] = Offered(option, (*known.targets, target.name))
    return iter(found.values())


def values(target: TargetDefinition, command: Command, given: Mapping[str, str | None]) -> Values:
    """The values of a target's options from texts by name; other names than those of target options are left alone.

    Raises ConfigurationError for a wrong value, and for an option that the target does not take.
    """
    refuse_others([target], command, given)
    return Values(given, target.options_of(command))


def refuse_others(targets: Iterable[TargetDefinition], command: Command, given: Mapping[str, str | None]) -> None:
    """Raises ConfigurationError for an option that is given and that none of these targets takes."""
    chosen = [target.name for target in targets]
    for option, owners in options(command):
        if given.get(option.name) and not set(owners) & set(chosen):
            raise ConfigurationError(
                f"--{option.name} is not an option of the {' or '.join(chosen)} target",
                f"remove it, or choose --target {' or '.join(owners)}",
            )


def target_option(command: Command) -> Option[str]:
    """`--target` of a command; `doctor` examines the targets that have checks."""
    if command == "doctor":
        text = f"Check only this target: {', '.join(_examined())}; default: all of these."
        return Option("target", "TARGET", text, str, ("doctor",), choices=_examined)
    first, *others = FOLDERS
    text = f"Target: {', '.join((f'{first} (default)', *others))}."
    return Option("target", "TARGET", text, str, choices=_names)


def _names() -> list[str]:
    return list(FOLDERS)


def _examined() -> list[str]:
    """The targets that `drahealth doctor` examines."""
    return [target.name for target in definitions() if target.examine]
