"""The targets, and all that is known of each without starting it: its options, capabilities and checks.

A target is a folder with a module `definition`, and a line in `FOLDERS`.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from drahealth.suites.errors import ConfigurationError, HarnessError
from drahealth.suites.targets.capabilities import Capability
from drahealth.suites.targets.option import Command, Option, Values
from drahealth.suites.targets.progress import Progress, silent

if TYPE_CHECKING:
    from drahealth.manager.profile import Profile
    from drahealth.suites.targets.target import Target

# One result of `drahealth doctor`.


@dataclass(frozen=True, slots=True)
class Check:
    """The result of a check. `hint` says what to do if it is not ok. The target runs without checks that are not
    `needed`."""

    name: str
    ok: bool
    found: str
    hint: str = ""
    needed: bool = True


# How the controller of a distributed run tells its workers about what they share.


@dataclass(frozen=True)
class SharedFile:
    """The file that describes a shared environment, and the number of the worker that reads it."""

    path: Path
    worker: int = 0

    def write(self, description: Mapping[str, Any] | HarnessError) -> None:
        """Describes the environment, or says why there is none."""
        if isinstance(description, HarnessError):
            content: dict[str, Any] = {"error": [description.message, description.hint]}
        else:
            content = {"shared": description}
        draft = self.path.with_suffix(".draft")
        draft.write_text(json.dumps(content))
        draft.replace(self.path)

    def read(self) -> dict[str, Any]:
        """The description. Raises HarnessError if there is none."""
        try:
            content: dict[str, Any] = json.loads(self.path.read_text())
        except (OSError, ValueError) as error:
            raise HarnessError(f"The controller of this run did not describe what its workers share: {error}") from None
        if "error" in content:
            raise HarnessError(*content["error"])
        shared: dict[str, Any] = content["shared"]
        return shared


# The definition of a target: all that is known about it without starting it.
#
# `definition.py` in the folder of a target has `DEFINITION`, a `TargetDefinition`. Listing targets and options
# imports it. So it imports nothing heavy itself; its functions import what they need when they are called.


@dataclass(frozen=True)
class Launch:
    """How a target is made for a run."""

    progress: Progress = silent
    failed: Callable[[], bool] = lambda: False
    """Returns at the end of the run whether a scenario failed."""
    shared: SharedFile | None = None
    """In a worker of a distributed run: where the controller describes the environment that it made."""
    resync: float | None = None
    """Seconds between the syncs of a pod, for a target that can `set-resync`; None: the target's own."""


class SharedEnvironment(Protocol):
    """What the workers of a distributed run share. The controller makes it."""

    async def up(self) -> Mapping[str, Any]:
        """Makes it. Returns a description for the workers, as JSON data. Raises HarnessError."""

    async def down(self) -> None:
        """Takes it down; harmless if it was never made."""


class JudgedNode(NamedTuple):
    """A node of a cluster that is judged by itself."""

    kubelet: str
    """The release of its kubelet, such as 1.37.2."""
    profile: "Profile"
    """What its kubelet is known to do."""
    missing: Mapping[Capability, str]
    """The capabilities that it lacks beside those of `TargetDefinition.missing`, each with the reason."""


class Configuration(Protocol):
    """One run on a target: its options, checked. Two that were made from the same options are equal."""

    @property
    def profile(self) -> "Profile":
        """What the kubelet of the target is known to do."""

    @property
    def missing(self) -> Mapping[Capability, str]:
        """The capabilities that it lacks beside those of `TargetDefinition.missing`, each with the reason."""

    @property
    def is_own_kubelet(self) -> bool:
        """The kubelet can be one that the user changed: an issue of its release may be fixed in it."""

    @property
    def kubelets(self) -> tuple[str, ...]:
        """The releases of its kubelets, with patch levels, oldest first; empty for the reference."""

    @property
    def server_profile(self) -> "Profile | None":
        """The profile of the release of its API server; None if it is that of the kubelets."""

    @property
    def judged_nodes(self) -> Mapping[str, "JudgedNode"]:
        """The nodes that each scenario runs on, by name; empty if each scenario runs once, on any node."""

    @property
    def title(self) -> str:
        """The target in a few words, such as "a real kubelet, Kubernetes 1.37.2"."""

    @property
    def flags(self) -> Mapping[str, str]:
        """The shortest list of options, by name, for an equal configuration."""

    def make(self, launch: Launch) -> "Target":
        """The target, not started. Raises HarnessError."""

    def share(self, launch: Launch) -> SharedEnvironment | None:
        """What the workers of a distributed run share; None if each has a target of its own."""


@dataclass(frozen=True)
class TargetDefinition:
    """Everything that is known about a target without starting it."""

    name: str
    """The value of `--target`."""
    title: str
    """A noun phrase, such as "a real kubelet"."""
    summary: str
    """One sentence for the documentation."""
    options: tuple[Option[Any], ...]
    missing: Mapping[Capability, str]
    """The capabilities that it lacks, each with the reason: a clause without a full stop."""
    configure: Callable[[Values], Configuration]
    """Checks the options together. Raises ConfigurationError."""
    plays_every_health_api: bool = False
    """A run without `--health-api` plays the basic scenarios over every health API that the kubelet supports."""
    node_memory: int = 0
    """Resident memory of a node in MB, for a target whose workers each have a node of their own; 0: very little."""
    is_busy: bool = False
    """Its scenarios keep a processor busy instead of waiting, so a whole run has a process for each processor."""
    overlaps: bool = False
    """Scenarios can overlap on a node, unless they disrupt it: the next one starts before the last one has ended."""
    examine: Callable[[Values, Progress], Iterator[Check]] | None = None
    """Yields the checks of `drahealth doctor` one by one; None: the target runs wherever Python runs."""
    clean: Callable[[bool, Progress], tuple[list[str], list[str]]] | None = None
    """Removes what interrupted runs left; with True also what was kept on purpose. Returns two lists of lines for
    people: what it removed, and what it left."""

    def can(self, capability: Capability) -> bool:
        return capability not in self.missing

    def options_of(self, command: str) -> tuple[Option[Any], ...]:
        """The options that this command takes for it; `doctor` takes none for a target without checks."""
        if command == "doctor" and self.examine is None:
            return ()
        return tuple(option for option in self.options if command in option.commands)


FOLDERS = {
    "reference": "drahealth.suites.targets.reference",
    "kubelet": "drahealth.suites.targets.kubelet",
    "kind": "drahealth.suites.targets.kind",
    "cluster": "drahealth.suites.targets.cluster",
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


def target_option(command: Command, usual: str = "") -> Option[str]:
    """`--target` of a command; `doctor` examines the targets that have checks. `usual` is the default, if it is another
    target than the first one."""
    if command == "doctor":
        text = f"Check only this target: {', '.join(_examined())}; default: all of these."
        return Option("target", "TARGET", text, str, ("doctor",), choices=_examined)
    named = (f"{name} (default)" if name == (usual or default()) else name for name in FOLDERS)
    text = f"Target: {', '.join(named)}."
    return Option("target", "TARGET", text, str, choices=_names)


def _names() -> list[str]:
    return list(FOLDERS)


def _examined() -> list[str]:
    """The targets that `drahealth doctor` examines."""
    return [target.name for target in definitions() if target.examine]
