"""What the program tells of besides what the manager does: plain data, for the JSON lines and the live table."""

from dataclasses import dataclass
from typing import Protocol

from drahealth.fakes.cluster.api import Object
from drahealth.manager import observer


@dataclass(frozen=True, slots=True)
class Started:
    """It serves. Where drivers and people find it; `metrics` is a URL, None without."""

    root_dir: str
    plugins_registry: str
    kubeconfig: str
    pods: str
    node: str
    profile: str
    metrics: str | None


@dataclass(frozen=True, slots=True)
class StatusChanged:
    """A pod's status is another now."""

    pod: Object


@dataclass(frozen=True, slots=True)
class PodGone:
    """The pod is gone from the API."""

    pod: Object


@dataclass(frozen=True, slots=True)
class ManifestRefused:
    """A manifest asks for what cannot be. `line` counts from 1, 0 where there is none to name."""

    file: str
    line: int
    problem: str


@dataclass(frozen=True, slots=True)
class Stopped:
    """It has ended in order."""


Event = observer.Event | Started | StatusChanged | PodGone | ManifestRefused | Stopped


class Observer(Protocol):
    """Who is told."""

    def __call__(self, event: Event, /) -> None:
        """It has just happened."""


class Observers:
    """All who are told; the one that the manager and the rest of the program know."""

    def __init__(self) -> None:
        self._all: list[Observer] = []

    def add(self, onlooker: Observer) -> None:
        """It is told of what happens from now on."""
        self._all.append(onlooker)

    def __call__(self, event: Event, /) -> None:
        for onlooker in self._all:
            onlooker(event)
