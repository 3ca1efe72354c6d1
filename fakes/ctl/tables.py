"""What `drahealth ctl status` shows a person."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from drahealth.fakes.program.console import standard_output
from drahealth.proto.quoting import printable

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
            table.add_row(
                Text(printable(device["device"])),
                Text(printable(device["health"]), _STYLE.get(device["health"], "")),
                Text(printable(device["message"]) if _is_driver(driver) else "yes" if device["listed"] else "no"),
                Text(printable(faults.get(device["device"], ""))),
            )
        if len(devices) > MOST:
            table.add_row(f"... and {len(devices) - MOST} more")
        out.print(table)


def _wrong(driver: Mapping[str, Any]) -> dict[str, str]:
    """By a device's name its faults, and its taints."""
    found: dict[str, list[str]] = {path: list(ids) for path, ids in driver["faults"].items()}
    for path, taints in driver.get("taints", {}).items():
        found.setdefault(path, []).extend(f"taint {_taint(taint)}" for taint in taints)
    return {path.replace("/", "-"): ", ".join(words) for path, words in found.items()}


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
    if driver.get("stream_faults"):
        more += f"; stream faults: {', '.join(driver['stream_faults'])}"
    return head.append(f"\n{printable(more)}", "not bold")


def _is_driver(driver: Mapping[str, Any]) -> bool:
    return driver.get("kind") != "device-plugin"
