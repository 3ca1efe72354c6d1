"""The devices of a fake: models, memory, attributes, partitions, links, and their CDI names and specs."""

import json
import math
import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path
from random import Random
from types import MappingProxyType

from drahealth.fakes.hints import near

# The devices of a fake: models, memory, attributes, partitions, links. Pure data.
#
# A device is identified by its path: `gpu-0`, or `gpu-0/mig-1` for a partition. Names in the resource.k8s.io API have
# no slashes, so there the partition is `gpu-0-mig-1`.

_WILDCARDS = frozenset("*?[")


@dataclass(frozen=True, slots=True)
class Device:
    """One device, or a partition of one."""

    path: str
    model: str = "fake"
    memory: str = "80Gi"
    attributes: Mapping[str, str | int | bool] = field(default_factory=dict)
    link: str = ""
    """Name of the link; whole devices with the same link are linked with each other; empty: no link."""
    pool: str = ""
    """The pool of the device; empty: the driver's pool."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Environment variables of a container with the device, by CDI."""
    node: str = ""
    """The node of the device, in an inventory of several nodes. Its path begins with the node: `fleet-3/gpu-0`."""

    @property
    def path_on_node(self) -> str:
        """The path without the node."""
        return self.path[len(self.node) + 1 :] if self.node else self.path

    @property
    def parent(self) -> str:
        """The path of the device of which this is a partition; empty for a whole device."""
        whole = self.path_on_node.rpartition("/")[0]
        return f"{self.node}/{whole}" if self.node and whole else whole

    @property
    def name(self) -> str:
        """The name in the API."""
        return self.path_on_node.replace("/", "-")

    @property
    def unique_name(self) -> str:
        """The name in the API, after the node in an inventory of several nodes."""
        return f"{self.node}/{self.name}" if self.node else self.name


class Inventory:
    """An inventory: a list of devices. Raises ValueError for duplicate paths or names, and for an unknown parent."""

    def __init__(self, devices: Iterable[Device]) -> None:
        self.devices = tuple(devices)
        self._by_path = {device.path: device for device in self.devices}
        self._by_name = {device.unique_name: device for device in self.devices}
        names = Counter(device.unique_name for device in self.devices)
        if twice := [name for name, count in names.items() if count > 1]:
            raise ValueError(f"duplicate device name: {', '.join(twice)}")
        self._partitions: dict[str, list[str]] = {}
        self._linked: dict[str, list[str]] = {}
        for device in self.devices:
            if not device.parent:
                self._linked.setdefault(device.link, []).append(device.path)
                continue
            if device.parent not in self._by_path:
                raise ValueError(f"device {device.path}: unknown parent device {device.parent!r}")
            self._partitions.setdefault(device.parent, []).append(device.path)

    @classmethod
    def of(cls, count: int, *, name: str = "gpu", partitions: int = 0, linked: bool = True) -> "Inventory":
        """This many equal devices, `gpu-0` and so on, each with this many partitions `mig-0` and so on."""
        paths = [f"{name}-{number}" for number in range(count)]
        return cls(
            device
            for path in paths
            for device in (
                Device(path, link=name if linked else ""),
                *(Device(f"{path}/mig-{part}", memory="10Gi") for part in range(partitions)),
            )
        )

    def on_nodes(self, nodes: Mapping[str, Mapping[str, str]]) -> "Inventory":
        """These devices on each of the nodes, with the attributes of their node. The pool of a device is its node."""
        return Inventory(
            replace(
                device,
                path=f"{node}/{device.path}",
                attributes={**device.attributes, **attributes},
                link=device.link and f"{node}/{device.link}",
                pool=node,
                node=node,
            )
            for node, attributes in nodes.items()
            for device in self.devices
        )

    def __getitem__(self, path: str) -> Device:
        try:
            return self._by_path[path]
        except KeyError:
            raise ValueError(f"unknown device {path!r}; {near(path, self._by_path)}") from None

    def find(self, name: str) -> Device | None:
        """A device by its path or its name in the API; None if unknown."""
        return self._by_path.get(name) or self._by_name.get(name)

    @property
    def leaves(self) -> tuple[str, ...]:
        """The paths of allocatable devices: whole devices, or the partitions of divided ones."""
        return tuple(device.path for device in self.devices if device.path not in self._partitions)

    def peers(self, path: str) -> Sequence[str]:
        """The paths of the whole devices that are linked with a whole device."""
        link = self[path].link
        return [other for other in self._linked[link] if other != path] if link else []

    def matching(self, pattern: str) -> Sequence[str]:
        """The paths of the devices that match a pattern; `all` means all whole devices. Raises ValueError if none
        matches.

        `*` does not match a slash: `gpu-*` matches no partition.
        """
        if pattern == "all":
            return [device.path for device in self.devices if not device.parent]
        depth = pattern.count("/")
        found = [d.path for d in self.devices if d.path.count("/") == depth and fnmatchcase(d.path, pattern)]
        if not found:
            raise ValueError(f"no device matches {pattern!r}; {near(pattern, self._by_path)}")
        return found

    def named(self, devices: str | Sequence[str]) -> list[str]:
        """The paths of these devices, each once: a path, an API name, a pattern, `all`, or several of these.

        Raises ValueError for an unknown device, and for a pattern that matches none.
        """
        words = [devices] if isinstance(devices, str) else devices
        return list(dict.fromkeys(path for word in words for path in self._named(word)))

    def selected(
        self,
        devices: str | Sequence[str],
        node: str = "",
        attributes: Mapping[str, str] = MappingProxyType({}),
        *,
        percent: float = 100.0,
        seed: int = 0,
    ) -> list[str]:
        """The paths of those of the devices whose node matches a pattern, and that have all of these attributes.

        With `percent`, a random share of them, rounded up, in their order. Raises ValueError if none is left.
        """
        found = self.named(devices)
        if node and not (found := [path for path in found if fnmatchcase(self[path].node, node)]):
            names = {device.node: None for device in self.devices if device.node}
            raise ValueError(f"no selected device is on a node {node!r}; {near(node, names)}")
        for key, value in attributes.items():
            if left := [path for path in found if str(self[path].attributes.get(key)) == value]:
                found = left
                continue
            values = {str(device.attributes[key]): None for device in self.devices if key in device.attributes}
            raise ValueError(f"no selected device has the {key} {value!r}; {near(value, values)}")
        if percent >= 100:
            return found
        drawn = set(Random(seed).sample(range(len(found)), math.ceil(len(found) * percent / 100)))
        return [path for number, path in enumerate(found) if number in drawn]

    def _named(self, word: str) -> Sequence[str]:
        if word == "all" or _WILDCARDS.intersection(word):
            return self.matching(word)
        return [(self.find(word) or self[word]).path]

    def reached(self, path: str, reach: str) -> Sequence[str]:
        """The paths that a fault on this device affects, whole devices before their partitions.

        `reach` is that of `faults.catalogue.Fault`.
        """
        device = self[path]
        whole = device.parent or path
        match reach:
            case "instance" | "device":
                return self._with_partitions(path)
            case "parent":
                return self._with_partitions(whole)
            case "peers":
                return [found for top in (whole, *self.peers(whole)) for found in self._with_partitions(top)]
            case "node":
                return [d.path for d in self.devices if d.node == device.node]
        raise ValueError(f"unknown reach of a fault: {reach!r}")

    def _with_partitions(self, path: str) -> list[str]:
        return [path, *self._partitions.get(path, ())]


# The CDI side of fakes: names of devices for container runtimes, and their specification.
#
# A real runtime starts a container only if each CDI id is in a specification in one of its directories (Container
# Device Interface, SPEC.md). The fake runtime does not check this.

_VERSION = "0.6.0"
"""The oldest version with annotations."""
_INSTANCE = "drahealth.instance"

_PART = r"[A-Za-z]([A-Za-z0-9_.-]*[A-Za-z0-9])?"
KIND = rf"{_PART}/{_PART}"
"""A vendor and a class (SPEC.md, "Kind"), such as example.com/gpu."""

SHARED = "all"
"""The device of a specification that represents all devices of a driver."""


def cdi_id(driver: str, device: str) -> str:
    """The CDI id of a device. The device's name in the API may differ."""
    return f"{kind_of(driver)}={device}"


def kind_of(driver: str) -> str:
    """The CDI kind of a driver's devices."""
    return f"{driver}/gpu"


def check_kind(kind: str) -> None:
    """Raises ValueError for an invalid CDI kind."""
    if not re.fullmatch(KIND, kind):
        raise ValueError(f"CDI kind must be like example.com/gpu, got {kind[:80]!r}")


def file_name(kind: str) -> str:
    """The file name of a kind's specification."""
    vendor, _, class_ = kind.rpartition("/")
    return f"{vendor.replace(os.sep, '_')}-{class_}.json"


def write(folder: Path, kind: str, owner: str, instance: str, devices: Mapping[str, Device | None]) -> None:
    """Writes the specification of a kind, in one step. Replaces that of an older instance.

    A container with one of these devices gets environment variables: one for the device and its owner, others from the
    inventory.
    """
    specification = {
        "cdiVersion": _VERSION,
        "kind": kind,
        "annotations": {_INSTANCE: instance},
        "devices": [
            {"name": name, "containerEdits": {"env": [f"{key}={value}" for key, value in seen.items()]}}
            for name, known in devices.items()
            for seen in [_environment(owner, name, known)]
        ],
    }
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / file_name(kind)
    draft = path.with_name(f".{path.name}.{instance}.draft")
    draft.write_text(json.dumps(specification))
    draft.replace(path)


def remove(folder: Path, kind: str, instance: str) -> None:
    """Removes the specification, unless another instance has replaced it since."""
    path = folder / file_name(kind)
    try:
        owner = json.loads(path.read_text())["annotations"][_INSTANCE]
    except (OSError, ValueError, KeyError):
        return
    if owner == instance:
        path.unlink(missing_ok=True)


def _environment(owner: str, name: str, known: Device | None) -> dict[str, str]:
    seen = {_variable(name): owner}
    if known and known.parent:
        seen[f"{_variable(name)}_PARENT"] = known.parent
    return {**seen, **(known.environment if known else {})}


def _variable(device: str) -> str:
    return "DRAHEALTH_" + "".join(c if c.isalnum() else "_" for c in device).upper()
