"""The commands of `drahealth ctl set`: they override the reported health of devices, or set the heartbeat."""

from collections.abc import Iterator
from typing import Any

from drahealth.fakes.control.commands.definition import Command
from drahealth.fakes.control.commands.plugin_devices import Remove, Restore, SetListedHealth
from drahealth.fakes.control.commands.reports import SetHealth
from drahealth.fakes.control.commands.streams import SetHeartbeat
from drahealth.fakes.ctl.driver import Driver
from drahealth.fakes.program.errors import CommandError
from drahealth.proto.values import Health


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
