"""`drahealth ctl`. It starts at once: whatever is heavy is imported where it is used."""

import json as json_
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import typer

from drahealth.fakes.control.socket_path import VARIABLE, default_path
from drahealth.fakes.ctl.connection import Connection
from drahealth.fakes.ctl.streams import app as streams
from drahealth.fakes.ctl.told import Driver, driver_of, tell
from drahealth.fakes.ctl.words import words_of
from drahealth.fakes.hints import near
from drahealth.fakes.program.errors import CommandError
from drahealth.fakes.program.usage import Verbs
from drahealth.proto.quoting import printable

app = typer.Typer(name="ctl", cls=Verbs, no_args_is_help=True, add_completion=False)
app.add_typer(streams, help="What is wrong with the health streams.")

Device = Annotated[str, typer.Argument(help="Such as gpu-0, or gpu-0/mig-1.")]
Json = Annotated[bool, typer.Option("--json", help="As JSON.")]


@app.callback()
def ctl(
    context: typer.Context,
    socket: Annotated[
        Path | None, typer.Option(metavar="PATH", help=f"The drivers' control socket; {VARIABLE}, or the usual one.")
    ] = None,
    driver: Annotated[str, typer.Option(metavar="NAME", help="Which driver, where there are several.")] = "",
) -> None:
    """Tell running fake drivers what happens to their devices. Exits 0, 2 for usage, 3 for environment."""
    context.obj = (socket or default_path(), driver)


# -- devices


@app.command()
def inject(
    context: typer.Context,
    fault: Annotated[str, typer.Argument(help="Of the driver's catalogue (drahealth faults list), such as xid/79.")],
    device: Device,
) -> None:
    """A device has this fault from now on."""
    tell(context, "inject", fault=fault, device=device)


@app.command()
def clear(
    context: typer.Context, fault: Annotated[str, typer.Argument(help="The fault that is gone.")], device: Device
) -> None:
    """A device has this fault no more, however that came. Exits 1 if it did not have it."""
    with driver_of(context) as driver:
        had = driver.call("state")["faults"].get(device, ())
        driver.call("clear", fault=fault, device=device)
    if fault not in had:
        raise CommandError(f"{device} did not have {fault}, but {', '.join(had) or 'nothing'}", 1)


@app.command()
def recover(
    context: typer.Context,
    action: Annotated[str, typer.Argument(help="app-restart, gpu-reset, reboot, replace; `all`: all is well again.")],
    device: Annotated[str, typer.Argument(help="By itself all devices.", show_default=False)] = "",
    fails: Annotated[bool, typer.Option("--fails", help="It is tried, and does not help.")] = False,
    claimed: Annotated[bool, typer.Option("--claimed", help="It does not help, but the driver says it did.")] = False,
    takes: Annotated[
        str, typer.Option(metavar="TIME", help="How long, such as 30s; `catalogue`: what is known of each fault.")
    ] = "0s",
) -> None:
    """Do this to recover a device, which stays as it is until that is over. Exits 1 if it is too weak for a fault."""
    from drahealth.fakes.durations import parse_signed

    try:
        seconds = None if takes == "catalogue" else parse_signed(takes)
    except ValueError as error:
        raise CommandError(f"--takes: {error}") from None
    if action == "all":
        if device or fails or claimed or seconds != 0:
            raise CommandError("`recover all` makes all well, so it takes nothing else; name an action for one device")
        tell(context, "heal")
        return
    with driver_of(context) as driver:
        came = driver.call("recover", action=action, device=device, fails=fails, claimed=claimed, takes=seconds)
    after = f" in {came['takes']:g} s" if came["takes"] else ""
    for word, faults in (("cured", came["cured"]), ("claimed to be cured" if claimed else "left", came["left"])):
        for fault in faults:
            typer.echo(f"{word}{after}: {printable(fault)}")
    if not (came["cured"] or came["left"]):
        typer.echo(f"there is nothing to recover{f' on {device}' if device else ''}")
    if came["left"] and not (fails or claimed):
        raise typer.Exit(1)


@app.command()
def taint(
    context: typer.Context,
    device: Device,
    taint: Annotated[str, typer.Argument(help="KEY[=VALUE][:EFFECT], such as example.com/sick:NoExecute.")],
) -> None:
    """The device is published with this taint from now on; without an effect it is NoSchedule."""
    said, _, effect = taint.partition(":")
    key, _, value = said.partition("=")
    tell(context, "taint", device=device, key=key, value=value, effect=effect or "NoSchedule")


@app.command()
def untaint(
    context: typer.Context,
    device: Device,
    taint: Annotated[str, typer.Argument(help="KEY[:EFFECT]; without an effect, whichever it has.")],
) -> None:
    """The device is published without this taint again."""
    key, _, effect = taint.partition(":")
    tell(context, "untaint", device=device, key=key, effect=effect)


@app.command("set")
def set_(
    context: typer.Context,
    device: Annotated[str, typer.Argument(help="Such as gpu-0, or gpu-0/mig-1.", show_default=False)] = "",
    health: Annotated[str | None, typer.Option(metavar="HEALTH", help="Healthy, Unhealthy or Unknown.")] = None,
    message: Annotated[str | None, typer.Option(metavar="TEXT", help="What is said of it.")] = None,
    timeout: Annotated[int | None, typer.Option(metavar="SECONDS", help="0: the kubelet's default.")] = None,
    heartbeat: Annotated[float | None, typer.Option(metavar="SECONDS", help="The driver's; 0 for none.")] = None,
    listed: Annotated[
        bool | None,
        typer.Option("--listed/--unlisted", help="Of a device plugin: whether it is in its list.", show_default=False),
    ] = None,
) -> None:
    """A device is told of so from now on, whatever it has; or set how often the driver reports by itself.

    The health of a device plugin's device is any word, told as it is written: what is not `Healthy` is Unhealthy.
    """
    said = {"health": health, "message": message, "timeout": timeout, "listed": listed}
    changes = {key: value for key, value in said.items() if value is not None}
    if bool(device) != bool(changes) or (not changes and heartbeat is None):
        raise CommandError(
            "`set` takes a device with --health, --message, --timeout, --listed or --unlisted, or --heartbeat, or both"
        )
    if heartbeat is not None and not 0 <= heartbeat < float("inf"):
        raise CommandError(f"the heartbeat is a finite number of seconds, 0 for none, not {heartbeat:g}")
    with driver_of(context) as driver:
        if driver.is_plugin:
            _set_plugged(driver, device.replace("/", "-"), changes, heartbeat)
            return
        if listed is not None:
            raise CommandError(f"{driver.name} is a driver; --listed and --unlisted are for device plugins")
        if changes:
            driver.call("set_health", **_changed(driver, device.replace("/", "-"), changes))
        if heartbeat is not None:
            driver.call("set_heartbeat", seconds=heartbeat)


def _changed(driver: Driver, device: str, changes: dict[str, Any]) -> dict[str, Any]:
    """The device with these changes. Without a health it keeps what it has, and without a message that of the same."""
    if "health" in changes:
        return {"device": device, **changes, "health": _health(changes["health"])}
    known = {found["device"]: found for found in driver.call("devices")}
    if device not in known:
        raise CommandError(f"driver {driver.name} has no device {device!r}; {near(device, known)}")
    return {"device": device, "health": known[device]["health"], "message": known[device]["message"], **changes}


def _set_plugged(driver: Driver, device: str, changes: dict[str, Any], heartbeat: float | None) -> None:
    """The device of a device plugin with these changes."""
    odd = [f"--{key}" for key in ("message", "timeout") if key in changes] + ["--heartbeat"] * (heartbeat is not None)
    if odd:
        raise CommandError(f"{driver.name} is a device plugin, which reports a word of health and no {odd[0][2:]}")
    known = {found["device"]: found["listed"] for found in driver.call("devices")}
    if device not in known:
        raise CommandError(f"{driver.name} has no device {device!r}; {near(device, known)}")
    if changes.get("listed") == known[device]:
        raise CommandError(f"{driver.name} {'lists' if known[device] else 'leaves out'} {device} already")
    if "health" in changes:
        driver.call("set_health", device=device, health=changes["health"])
    if "listed" in changes:
        driver.call("restore" if changes["listed"] else "remove", device=device)


def _health(word: str) -> str:
    from drahealth.proto.values import Health

    found = next((health for health in Health if health.lower() == word.lower()), None)
    if found is None:
        raise CommandError(f"there is no health {word!r}; {near(word, Health)}")
    return str(found)


# -- the driver itself


@app.command()
def stop(context: typer.Context) -> None:
    """The driver ends in order: it unregisters and its sockets go; the process stays, for `start`."""
    tell(context, "stop")


@app.command()
def start(context: typer.Context) -> None:
    """The driver starts again; nothing for one that runs, but that it registers again after `unregister`."""
    tell(context, "start")


Offer = Annotated[
    list[str] | None,
    typer.Option(metavar="API", help="The health APIs from now on: v1, v1alpha1, or full names; as before if none."),
]


@app.command()
def restart(context: typer.Context, offer: Offer = None) -> None:
    """The driver ends in order and starts again."""
    with driver_of(context) as driver:
        if driver.is_plugin and offer:
            raise CommandError(f"{driver.name} is a device plugin, which has one API and offers no others")
        driver.call("restart", **({} if driver.is_plugin else {"offer": offer or []}))


@app.command()
def upgrade(
    context: typer.Context,
    overlap: Annotated[str, typer.Option(metavar="TIME", help="How long both instances run, such as 2s.")] = "1s",
    offer: Offer = None,
) -> None:
    """A newer instance registers beside the driver's, which then ends: a rolling update. Returns when it is over."""
    from drahealth.fakes.durations import parse_signed

    try:
        seconds = parse_signed(overlap)
    except ValueError as error:
        raise CommandError(f"--overlap: {error}") from None
    with driver_of(context) as driver:
        driver.connection.takes(seconds)
        driver.call("upgrade", overlap=seconds, offer=offer or [])
        typer.echo(f"it is instance {printable(driver.call('state')['instance'])} now")


@app.command()
def crash(context: typer.Context) -> None:
    """The driver is gone at once, as after SIGKILL: streams are cut, its socket files stay."""
    tell(context, "crash")


@app.command()
def unregister(context: typer.Context) -> None:
    """Its registration socket goes, and comes back with the next start."""
    tell(context, "unregister")


# -- what is there


@app.command()
def watch(context: typer.Context, json: Json = False) -> None:
    """Follow what happens, until Ctrl-C or the drivers' process ends."""
    path, name = context.obj
    with Connection(path) as connection:
        names = {}
        for one in [name] if name else [driver["name"] for driver in connection.call("drivers")]:
            used = connection.call("use", name=one)
            connection.call("watch", driver=used["driver"])
            names[used["driver"]] = used["name"]
        with suppress(KeyboardInterrupt):
            for told in connection.news():
                line = told["news"]
                if told.get("left_out"):
                    line["left_out_before"] = told["left_out"]
                print(json_.dumps(line) if json else words_of(line), flush=True)  # noqa: T201
            raise CommandError(f"the process at {printable(str(path))} has ended", 3)


@app.command()
def status(context: typer.Context, json: Json = False) -> None:
    """Show the drivers, their devices and what is wrong with them."""
    path, name = context.obj
    with Connection(path) as connection:
        names = [name] if name else [driver["name"] for driver in connection.call("drivers")]
        found = [_status(Driver(connection, connection.call("use", name=one))) for one in names or [""]]
    if json:
        typer.echo(json_.dumps({"drivers": found}, indent=2))
        return
    from drahealth.fakes.ctl.tables import show_status

    show_status(found)


def _status(driver: Driver) -> dict[str, Any]:
    described = {key: value for key, value in driver.described.items() if key != "driver"}
    state, devices = driver.call("state"), driver.call("devices")
    return {**described, **state, "devices": devices}
