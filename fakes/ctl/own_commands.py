"""The subcommands of `drahealth ctl` that are not made from one definition."""

import json as json_
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from drahealth.fakes.control.commands import DEVICE, SetHeartbeat
from drahealth.fakes.control.definition import Command
from drahealth.fakes.control.without_subcommand import Remove, Restore, SetHealth, SetListedHealth
from drahealth.fakes.ctl.connection import Connection, Driver, driver_of
from drahealth.fakes.program.console import standard_output
from drahealth.fakes.program.errors import CommandError
from drahealth.proto.quoting import printable
from drahealth.proto.values import Health

# The commands of `drahealth ctl set`: they override the reported health of devices, or set the heartbeat.


def commands_for(
    driver: Driver, devices: tuple[str, ...], changes: dict[str, Any], heartbeat: float | None
) -> list[Command[Any]]:
    """The commands for these options of `set`. Raises ValueError for an option that the driver or plugin lacks."""
    return list((_for_plugin if driver.is_plugin else _for_driver)(driver, devices, changes, heartbeat))


def _for_driver(
    driver: Driver, devices: tuple[str, ...], changes: dict[str, Any], heartbeat: float | None
) -> Iterator[Command[Any]]:
    if "listed" in changes:
        raise ValueError(f"{driver.words} has no --listed and --unlisted; they are for device plugins")
    health = _health(changes["health"]) if "health" in changes else None
    if changes:
        message = changes.get("message", None if health is None else "")
        yield SetHealth(devices, health, message, changes.get("timeout"))
    if heartbeat is not None:
        yield SetHeartbeat(heartbeat)


def _for_plugin(
    driver: Driver, devices: tuple[str, ...], changes: dict[str, Any], heartbeat: float | None
) -> Iterator[Command[Any]]:
    """The command that the plugin can reject comes first."""
    odd = [f"--{key}" for key in ("message", "timeout") if key in changes] + ["--heartbeat"] * (heartbeat is not None)
    if odd:
        raise ValueError(f"{driver.words} has no {odd[0]}; it is for drivers")
    if "listed" in changes:
        yield (Restore if changes["listed"] else Remove)(devices)
    if "health" in changes:
        yield SetListedHealth(devices, changes["health"])


def _health(word: str) -> Health:
    found = next((health for health in Health if health.lower() == word.lower()), None)
    if found is None:
        raise CommandError(f"--health must be one of {', '.join(Health)}, got {word!r}")
    return found


# The subcommands of `drahealth ctl` that are not made from one definition: `set`, `watch` and `status`.

app = typer.Typer()

_TIMEOUT_LIMIT = 1 << 63
"""The timeout is an int64 in the health APIs."""
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@app.command("set")
def set_(
    context: typer.Context,
    device: Annotated[list[str] | None, typer.Argument(metavar="DEVICE", help=DEVICE, show_default=False)] = None,
    health: Annotated[
        str | None,
        typer.Option(metavar="HEALTH", help="Healthy, Unhealthy or Unknown; for a device plugin any word."),
    ] = None,
    message: Annotated[str | None, typer.Option(metavar="TEXT", help="Message of the devices.")] = None,
    timeout: Annotated[
        int | None, typer.Option(metavar="SECONDS", help="Timeout of the devices; 0 means the default of the kubelet.")
    ] = None,
    heartbeat: Annotated[
        float | None, typer.Option(metavar="SECONDS", help="Time between two heartbeats of the driver; 0 for none.")
    ] = None,
    listed: Annotated[
        bool | None,
        typer.Option(
            "--listed/--unlisted",
            help="Add devices to the list of a device plugin, or remove them.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Report this health, message or timeout for devices, or set the time between heartbeats.

    The values of a device apply until the next `set`, fault or recovery of this device. For a device plugin, the
    health can be any word. Kubelets treat every word except `Healthy` as Unhealthy.
    """
    options = {"health": health, "message": message, "timeout": timeout, "listed": listed}
    changes = {key: value for key, value in options.items() if value is not None}
    selection = context.obj.selection
    if bool(device or selection) != bool(changes) or (not changes and heartbeat is None):
        raise CommandError(_nothing_to_set(device or ()))
    if timeout is not None and not 0 <= timeout < _TIMEOUT_LIMIT:
        raise CommandError(f"--timeout must be between 0 and {_TIMEOUT_LIMIT - 1} seconds, got {timeout}")
    # only here: `ctl` starts without it

    with driver_of(context) as driver:
        selected = driver.select(tuple(device or ["all"]), selection) if selection else tuple(device or ())
        try:
            commands = commands_for(driver, selected, changes, heartbeat)
        except ValueError as error:
            raise CommandError(str(error)) from None
        for command in commands:
            driver.do(command)


def _nothing_to_set(devices: Sequence[str]) -> str:
    options = "--health, --message or --timeout (for a device plugin --health, --listed or --unlisted)"
    return (
        f"nothing to set for {' '.join(devices)}; pass {options}"
        if devices
        else f"missing DEVICE; pass DEVICE and {options}, or --heartbeat alone"
    )


@app.command("watch")
def watch(context: typer.Context, json: Json = False) -> None:
    """Print events as they happen, until Ctrl-C, or until the process that serves the fakes ends."""
    path, name, _ = context.obj
    with Connection(path) as connection:
        names = {}
        for one in [name] if name else [driver["name"] for driver in connection.call("drivers")]:
            used = connection.call("use", name=one)
            connection.call("watch", driver=used["driver"])
            names[used["driver"]] = used["name"]
        with suppress(KeyboardInterrupt):
            for message in connection.news():
                line = message["news"]
                if message.get("left_out"):
                    line["left_out_before"] = message["left_out"]
                print(json_.dumps(line) if json else _sentence(line), flush=True)  # noqa: T201
            raise CommandError(f"the process at {printable(str(path))} has ended", 3)


def _sentence(line: dict[str, Any]) -> str:
    """The sentence of an event in its JSON form; its JSON text if another version of drahealth serves the driver."""
    from drahealth.proto.events import from_json
    from drahealth.proto.events.text import format_event  # only here: the other subcommands start without it

    left_out = f" ({line['left_out_before']} earlier lines were skipped)" if "left_out_before" in line else ""
    try:
        return f"{format_event(from_json(line))}{left_out}"
    except ValueError:
        return json_.dumps(line)


@app.command("status")
def status(context: typer.Context, json: Json = False) -> None:
    """Show the fakes, with their devices and faults."""
    path, name, selection = context.obj
    with Connection(path) as connection:
        names = [name] if name else [driver["name"] for driver in connection.call("drivers")]
        drivers = [Driver(connection, connection.call("use", name=one)) for one in names or [""]]
        found = [_status(driver, selection) for driver in drivers]
    if json:
        typer.echo(json_.dumps({"drivers": found}, indent=2))
        return

    show_status(found)


def _status(driver: Driver, selection: Mapping[str, str | float]) -> dict[str, Any]:
    described = {key: value for key, value in driver.described.items() if key != "driver"}
    of = driver.described["driver"]
    state, devices = driver.connection.call("state", of), driver.connection.call("devices", of)
    if selection:
        selected = {_name_of(driver.described, path) for path in driver.select("all", selection)}
        devices = [one for one in devices if _name(driver.described, one) in selected]
    return {**described, **state, "devices": devices}


def _name(driver: Mapping[str, Any], device: Mapping[str, Any]) -> str:
    """The name of a device; in a fleet with its node, which is its pool."""
    return f"{device['pool']}/{device['device']}" if driver.get("nodes") else str(device["device"])


def _name_of(driver: Mapping[str, Any], path: str) -> str:
    """The same from the path of a device."""
    node, _, on_node = path.partition("/")
    return f"{node}/{on_node.replace('/', '-')}" if driver.get("nodes") else path.replace("/", "-")


MOST = 50
"""Devices that are shown one by one, those first that are not well."""
_STYLE = {"Healthy": "green", "Unhealthy": "bold red", "Unknown": "yellow"}
_URGENCY = {"Unhealthy": 0, "Unknown": 1, "Healthy": 2}


def show_status(drivers: Sequence[Mapping[str, Any]], console: Console | None = None) -> None:
    """Of each driver, or device plugin, its state and its devices."""
    out = console or standard_output()
    for driver in drivers:
        out.print(_head(driver))
        devices = sorted(driver["devices"], key=lambda device: _URGENCY.get(device["health"], 1))
        columns = ("device", "health", "message" if _is_driver(driver) else "listed", "faults")
        table = Table(*columns, box=None, header_style="bold cyan", pad_edge=False)
        faults = _wrong(driver)
        for device in devices[:MOST]:
            name = _name(driver, device)
            table.add_row(
                Text(printable(name)),
                Text(printable(device["health"]), _STYLE.get(device["health"], "")),
                Text(printable(device["message"]) if _is_driver(driver) else "yes" if device["listed"] else "no"),
                Text(printable(faults.get(name, ""))),
            )
        if len(devices) > MOST:
            table.add_row(f"... and {len(devices) - MOST} more")
        out.print(table)


def _wrong(driver: Mapping[str, Any]) -> dict[str, str]:
    """By a device's name its faults, and its taints."""
    found: dict[str, list[str]] = {path: list(ids) for path, ids in driver["faults"].items()}
    for path, taints in driver.get("taints", {}).items():
        found.setdefault(path, []).extend(f"taint {_taint(taint)}" for taint in taints)
    return {_name_of(driver, path): ", ".join(words) for path, words in found.items()}


def _taint(taint: Mapping[str, str]) -> str:
    return f"{taint['key']}{'=' if taint['value'] else ''}{taint['value']}:{taint['effect']}"


def _head(driver: Mapping[str, Any]) -> Text:
    state = "running" if driver["running"] else "not running"
    state += ", registered" if driver["registered"] else ", not registered"
    if driver["registration_error"]:
        state += f" ({driver['registration_error']})"
    state += f", instance {driver['instance']}" if driver["instance"] else ""
    state += ", being upgraded" if driver.get("upgrading") else ""
    counts = Counter(device["health"] for device in driver["devices"])
    health = ", ".join(f"{count} {name}" for name, count in counts.items())
    where = f" on {driver['node']}" if _is_driver(driver) else ", a device plugin"
    head = Text(printable(f"{driver['name']}{where}: {state}"), "bold")
    given = (
        f"claims: {len(driver['prepared'])}" if _is_driver(driver) else f"allocations so far: {driver['allocations']}"
    )
    more = f"health streams: {driver['streams']}, {given}, devices: {health}"
    if driver.get("nodes"):
        unwell = {device["pool"] for device in driver["devices"] if device["health"] != "Healthy"}
        more += f", on {len(unwell)} nodes not Healthy"
    if driver.get("stream_faults"):
        more += f"; stream faults: {', '.join(driver['stream_faults'])}"
    return head.append(f"\n{printable(more)}", "not bold")


def _is_driver(driver: Mapping[str, Any]) -> bool:
    return driver.get("kind") != "device-plugin"
