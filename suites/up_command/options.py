"""The options of `drahealth up`, together with what an earlier start of the node has stored."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from drahealth.fakes.inventory.file import load_file
from drahealth.fakes.program.errors import CommandError
from drahealth.fakes.program.user_files import FileError, read
from drahealth.manager.releases import DEFAULT_VERSION
from drahealth.suites.errors import ConfigurationError
from drahealth.suites.fleet.topology import NODES_PER_RACK
from drahealth.suites.targets.versions import NEWEST, parse_version, profile_of
from drahealth.suites.up_command.node_folder import NodeFolder, NodeState

DEFAULT_INVENTORY = "format: inventory/v1\ndevices: [{name: gpu, count: 2}]\n"
"""The inventory of a node without -f: two GPUs of gpu.example.com."""
FLEET_INVENTORY = "format: inventory/v1\ndevices: [{name: gpu, count: 8}]\n"
"""The same with --fleet, for each node: eight GPUs."""
MOST_HOLLOW_NODES = 10_000
"""The limit of --fleet."""
MOST_NODES = 20
"""The limit of --nodes."""
NODE_MEMORY = 120
"""Megabytes that each node takes beside the first: its kubelet, its sandbox and its drivers."""
_HOLLOW_MEMORY = 1.0
"""Megabytes that each hollow node takes, with eight devices and a Pod, in all processes (`ci/bench/hollow`)."""


def fleet_memory(nodes: int) -> int:
    """Megabytes that a fleet takes beside the first node."""
    return round(_HOLLOW_MEMORY * nodes)


@dataclass(frozen=True, slots=True)
class UpOptions:
    """The given options; None stands for one that was not given. Paths are absolute."""

    kubernetes: str | None = None
    reference: bool = False
    inventory: Path | None = None
    timeline: Path | None = None
    gates: Mapping[str, bool] | None = None
    nodes: int | None = None
    fleet: int | None = None
    rack: int | None = None
    metrics_port: int | None = None


def planned(given: UpOptions, earlier: NodeState | None) -> NodeState:
    """The state of the node that starts. What is not given comes from the earlier start, whose data it keeps.

    Raises ConfigurationError for options that exclude each other or do not fit the data.
    """
    if given.reference and given.kubernetes is not None:
        raise ConfigurationError("--reference and --kubernetes exclude each other", "the reference has no release")
    _check_nodes(given)
    _check_fleet(given, earlier)
    if earlier is None:
        kubernetes = "" if given.reference else parse_version(given.kubernetes or DEFAULT_VERSION)
    else:
        kubernetes = _same(given, earlier)
    if kubernetes:
        profile_of(kubernetes)
    gates = given.gates if given.gates is not None else earlier.gates if earlier else {}
    fleet = given.fleet or (earlier.fleet if earlier else 0)
    rack = given.rack or (earlier.rack if earlier else NODES_PER_RACK)
    return NodeState(kubernetes, dict(gates), nodes=_nodes(given, earlier), fleet=fleet, rack=rack)


def _check_nodes(given: UpOptions) -> None:
    if given.nodes is None:
        return
    if not 1 <= given.nodes <= MOST_NODES:
        raise ConfigurationError(
            f"--nodes must be between 1 and {MOST_NODES}, got {given.nodes}",
            f"each node takes {NODE_MEMORY} MB of memory",
        )
    if given.reference and given.nodes > 1:
        raise ConfigurationError("--reference and --nodes exclude each other", "the reference is one node")


def _check_fleet(given: UpOptions, earlier: NodeState | None) -> None:
    for option, value, most in (
        ("--fleet", given.fleet, MOST_HOLLOW_NODES),
        ("--nodes-per-rack", given.rack, MOST_HOLLOW_NODES),
        ("--metrics-port", given.metrics_port, 65535),
    ):
        least = 0 if option == "--metrics-port" else 1
        if value is not None and not least <= value <= most:
            raise ConfigurationError(f"{option} must be between {least} and {most}, got {value}")
        if value is not None and not (given.fleet or (earlier and earlier.fleet)):
            raise ConfigurationError(f"{option} needs --fleet", "for example --fleet 100")
    if given.fleet and given.reference:
        raise ConfigurationError("--reference and --fleet exclude each other", "the reference is one node")
    if earlier and (given.fleet not in (None, earlier.fleet) or given.rack not in (None, earlier.rack)):
        raise ConfigurationError(
            f"the data of the node have {_fleet_of(earlier)}",
            "pass --fresh to remove its data, or --name for another node",
        )


def _fleet_of(state: NodeState) -> str:
    return f"a fleet of {counted(state.fleet)}, {state.rack} in a rack" if state.fleet else "no fleet"


def _nodes(given: UpOptions, earlier: NodeState | None) -> int:
    if earlier is None:
        return given.nodes or 1
    if given.nodes not in (None, earlier.nodes):
        raise ConfigurationError(
            f"the node has the data of {counted(earlier.nodes)}, not of {given.nodes}",
            "pass --fresh to remove its data, or --name for another node",
        )
    return earlier.nodes


def counted(nodes: int) -> str:
    """`1 node`, `2 nodes`."""
    return f"{nodes} node" + ("" if nodes == 1 else "s")


def note_on_default(name: str, state: NodeState, given: UpOptions) -> str:
    """What a new node runs, if this node runs something else and no option asked for it; empty otherwise."""
    if given.reference or given.kubernetes is not None or state.kubernetes == DEFAULT_VERSION:
        return ""
    return (
        f"note: node {name} runs {state.title}; a new node runs Kubernetes {DEFAULT_VERSION}. To get one, run "
        f"`drahealth down --name {name}` first, or pass another --name"
    )


def _same(given: UpOptions, earlier: NodeState) -> str:
    wanted = earlier.kubernetes if given.kubernetes is None else parse_version(given.kubernetes, _minor_of(earlier))
    if wanted == earlier.kubernetes and not (given.reference and not earlier.reference):
        return wanted
    asked = "the reference" if given.reference else f"Kubernetes {wanted}"
    raise ConfigurationError(
        f"the node has the data of {earlier.title}, not of {asked}",
        "pass --fresh to remove its data, or --name for another node",
    )


def _minor_of(earlier: NodeState) -> Mapping[str, str]:
    """The newest patch releases, and in place of that of its minor release the release of the node."""
    return {**NEWEST, earlier.kubernetes.rpartition(".")[0]: earlier.kubernetes}


def check_files(given: UpOptions, nodes: int, fleet: int = 0) -> None:
    """Raises CommandError for an unreadable or invalid inventory or timeline, before anything is started.

    On several nodes, each pool is that of a node. A fleet has no device plugins.
    """
    load_inventory = _load_for_fleet if fleet else load_file if nodes == 1 else _load_without_pools
    for path, load in ((given.inventory, load_inventory), (given.timeline, _load_timeline)):
        if path:
            try:
                load(path)
            except FileError as error:
                raise CommandError(str(error)) from None
            except OSError as error:
                raise CommandError(f"{path} cannot be read: {error.strerror}") from None


def _load_without_pools(path: Path) -> object:
    """Raises FileError if the inventory names a pool: all nodes would publish it."""
    found = load_file(path)
    for part in found.drivers:
        named = {part.options.get("pool", ""), *(device.pool for device in part.inventory.devices)}
        if pools := sorted(named - {""}):
            raise part.error(f"pool {pools[0]!r} would be on each node; with several nodes, remove the key `pool`")
    return found


def _load_for_fleet(path: Path) -> object:
    """Raises FileError if the inventory names a pool, or has a device plugin."""
    _load_without_pools(path)
    if plugins := load_file(path).plugins:
        raise plugins[0].error("a fleet has no device plugins; with --fleet, remove `plugins`")
    return None


def _load_timeline(path: Path) -> object:
    from drahealth.fakes.timelines.load import load  # slow, and seldom needed

    return load(read(path), str(path))


def check_running(folder: NodeFolder, running: NodeState, given: UpOptions, *, fresh: bool, foreground: bool) -> None:
    """Raises ConfigurationError for an option that differs from the running node, or has no effect on it."""
    if difference := _difference(folder, running, given, fresh=fresh, foreground=foreground):
        raise ConfigurationError(
            f"node {folder.name} is up{difference}",
            f"end it with `drahealth down --name {folder.name}`, or pass another --name",
        )


def _difference(folder: NodeFolder, running: NodeState, given: UpOptions, *, fresh: bool, foreground: bool) -> str:
    """What the node has instead of the given options; empty if it fits."""
    if given.reference and given.kubernetes is not None:
        return planned(given, running).title  # which rejects both together
    wanted = running.kubernetes if given.kubernetes is None else parse_version(given.kubernetes, _minor_of(running))
    if wanted != running.kubernetes or (given.reference and not running.reference):
        return f" with {running.title}, not with {'the reference' if given.reference else f'Kubernetes {wanted}'}"
    if given.nodes not in (None, running.nodes):
        return f" with {counted(running.nodes)}, not with {given.nodes}"
    if given.fleet not in (None, running.fleet) or given.rack not in (None, running.rack):
        return (
            f" with a fleet of {counted(running.fleet)}, {running.rack} in a rack"
            if running.fleet
            else " without a fleet"
        )
    if given.gates is not None and dict(given.gates) != running.gates:
        gates = ",".join(f"{name}={str(on).lower()}" for name, on in running.gates.items())
        return f" with {f'the feature gates {gates}' if gates else 'the default feature gates'}"
    if given.inventory is not None and given.inventory.read_bytes() != folder.inventory.read_bytes():
        return f" with another inventory than {given.inventory}"
    if given.timeline is not None:
        return ", and --timeline needs a start of the node"
    if given.metrics_port is not None:
        return ", and --metrics-port needs a start of the node"
    if fresh:
        return ", and --fresh needs a start of the node"
    return " in the background" if foreground else ""


def gates_of(text: str) -> dict[str, bool]:
    """The feature gates of `NAME=true|false,...`. Raises ConfigurationError."""
    gates = {}
    for word in filter(None, text.split(",")):
        name, _, value = word.partition("=")
        if not name.isidentifier() or value.lower() not in ("true", "false"):
            raise ConfigurationError(
                f"--gates must be NAME=true or NAME=false, got {word!r}", "separate several with commas"
            )
        gates[name] = value.lower() == "true"
    return gates
