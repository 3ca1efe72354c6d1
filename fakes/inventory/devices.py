"""The devices of a fake: models, memory, attributes, partitions of a device, what is linked with what. Pure data.

A device is known here by its path: `gpu-0`, or `gpu-0/mig-1` for a partition of it. In the resource.k8s.io API, where
names have no slashes, a partition is called `gpu-0-mig-1`.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from drahealth.fakes.hints import near


@dataclass(frozen=True, slots=True)
class Device:
    """One device, or a partition of one."""

    path: str
    model: str = "fake"
    memory: str = "80Gi"
    attributes: Mapping[str, str | int | bool] = field(default_factory=dict)
    link: str = ""
    """What it is linked by: whole devices that have the same are linked with each other; empty: with none."""
    pool: str = ""
    """The pool that it is published in; empty: its driver's."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """What a container that gets it has in its environment, by CDI."""

    @property
    def parent(self) -> str:
        """The path of the device that this is a partition of; empty for a whole one."""
        return self.path.rpartition("/")[0]

    @property
    def name(self) -> str:
        """What the API knows it by."""
        return self.path.replace("/", "-")


class Inventory:
    """Devices in their order. Raises ValueError where two have one path or name, or a parent is not there."""

    def __init__(self, devices: Iterable[Device]) -> None:
        self.devices = tuple(devices)
        self._by_path = {device.path: device for device in self.devices}
        self._by_name = {device.name: device for device in self.devices}
        names = Counter(device.name for device in self.devices)
        if twice := [name for name, count in names.items() if count > 1]:
            raise ValueError(f"two devices have one name: {', '.join(twice)}")
        self._partitions: dict[str, list[str]] = {}
        self._linked: dict[str, list[str]] = {}
        for device in self.devices:
            if not device.parent:
                self._linked.setdefault(device.link, []).append(device.path)
                continue
            if device.parent not in self._by_path:
                raise ValueError(f"device {device.path} belongs to {device.parent}, which is not there")
            self._partitions.setdefault(device.parent, []).append(device.path)

    @classmethod
    def of(cls, count: int, *, name: str = "gpu", partitions: int = 0, linked: bool = True) -> "Inventory":
        """So many equal devices, `gpu-0` and so on, each in as many partitions `mig-0` and so on."""
        paths = [f"{name}-{number}" for number in range(count)]
        return cls(
            device
            for path in paths
            for device in (
                Device(path, link=name if linked else ""),
                *(Device(f"{path}/mig-{part}", memory="10Gi") for part in range(partitions)),
            )
        )

    def __getitem__(self, path: str) -> Device:
        try:
            return self._by_path[path]
        except KeyError:
            raise ValueError(f"there is no device {path!r}; {near(path, self._by_path)}") from None

    def find(self, name: str) -> Device | None:
        """A device by its path, or by what the API knows it by; None if there is none."""
        return self._by_path.get(name) or self._by_name.get(name)

    @property
    def leaves(self) -> tuple[str, ...]:
        """The paths of what can be allocated: whole devices, or the parts of those that are divided."""
        return tuple(device.path for device in self.devices if device.path not in self._partitions)

    def peers(self, path: str) -> Sequence[str]:
        """The paths of the whole devices that a whole one shares a link with."""
        link = self[path].link
        return [other for other in self._linked[link] if other != path] if link else []

    def matching(self, pattern: str) -> Sequence[str]:
        """The paths of the devices that a pattern names, `all` being all whole devices. Raises ValueError for none.

        A `*` does not pass a slash: `gpu-*` names no partition.
        """
        if pattern == "all":
            return [device.path for device in self.devices if not device.parent]
        depth = pattern.count("/")
        found = [d.path for d in self.devices if d.path.count("/") == depth and fnmatchcase(d.path, pattern)]
        if not found:
            raise ValueError(f"no device is called {pattern!r}; {near(pattern, self._by_path)}")
        return found

    def reached(self, path: str, reach: str) -> Sequence[str]:
        """The paths of what a fault on this device reaches, whole devices before their partitions.

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
                return [d.path for d in self.devices]
        raise ValueError(f"a fault does not reach {reach!r}")

    def _with_partitions(self, path: str) -> list[str]:
        return [path, *self._partitions.get(path, ())]
