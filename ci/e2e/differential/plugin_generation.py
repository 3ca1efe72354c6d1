"""Device plugins of generated scripts: their devices, the requests of pods, and their steps."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from hypothesis import strategies as st

from differential.script import (
    EndList,
    Held,
    ListDevices,
    Listed,
    Plugin,
    PluginStep,
    Pod,
    StartPlugin,
    StopPlugin,
    Use,
)

_NUMBERS = (0, 0, 0, 1, 1, 2)
"""Numbers of device plugins in a script."""
_IDS = ("gpu-0", "gpu-1", "a/b", "名前", "x" * 300, "gpu 2", "gpu-3", "gpu-4")
_HEALTHS = ("Healthy",) * 4 + ("Unhealthy",) * 3 + ("", "healthy", "Unknown", "x" * 300)
_KINDS = ("list",) * 8 + ("end", "stop")


@dataclass
class State:
    """The device plugins of a script after its steps so far."""

    running: set[tuple[int, int]] = field(default_factory=set)
    changed: set[int] = field(default_factory=set)
    """The plugins that are no longer as at the start."""


def numbers() -> st.SearchStrategy[int]:
    """Numbers of device plugins."""
    return st.sampled_from(_NUMBERS)


@st.composite
def uses(draw: st.DrawFn, plugins: int) -> list[Use | Held]:
    """The devices that a container requests."""
    return [Held(number, draw(st.sampled_from((1, 1, 2)))) for number in range(plugins) if draw(st.booleans())]


@st.composite
def plugins(draw: st.DrawFn, number: int, pods: Sequence[Pod]) -> tuple[Plugin, ...]:
    """Device plugins with enough devices for all pods. Plugins have ids in common."""
    return tuple(draw(_plugin(_requested(pods, place))) for place in range(number))


@st.composite
def _plugin(draw: st.DrawFn, requested: int) -> Plugin:
    count = max(1, requested + draw(st.sampled_from((0, 0, 1, 2))))
    ids = draw(st.permutations(_IDS)) if draw(st.booleans()) else _IDS
    more = tuple(f"more-{number}" for number in range(count - len(ids)))
    return Plugin((*ids, *more)[:count], directory=draw(st.booleans()))


def _requested(pods: Iterable[Pod], plugin: int) -> int:
    held = (use for pod in pods for container in pod.containers for use in container)
    return sum(use.count for use in held if isinstance(use, Held) and use.plugin == plugin)


@st.composite
def step(draw: st.DrawFn, state: State, plugins: Sequence[Plugin]) -> PluginStep:
    """A step of one of the plugins."""
    instances: list[tuple[int, Literal[0, 1]]] = [(number, 0) for number in range(len(plugins))]
    instances += [(number, 1) for number in range(len(plugins))] if draw(st.booleans()) else []
    number, side = draw(st.sampled_from(instances))
    state.changed.add(number)
    if (number, side) not in state.running:
        state.running.add((number, side))
        return StartPlugin(number, side)
    match draw(st.sampled_from(_KINDS)):
        case "list":
            return ListDevices(number, draw(_list(plugins[number])), side)
        case "end":
            return EndList(number, side)
    state.running.discard((number, side))
    return StopPlugin(number, side)


@st.composite
def _list(draw: st.DrawFn, plugin: Plugin) -> tuple[Listed, ...]:
    """Most devices of the plugin, each with a health text."""
    listed = [device for device in plugin.devices if draw(st.sampled_from((True,) * 5 + (False,)))]
    return tuple(Listed(device, draw(st.sampled_from(_HEALTHS))) for device in listed)
