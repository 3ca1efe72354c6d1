"""What `drahealth ctl status` shows a person."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from drahealth.fakes.console import standard_output
from drahealth.proto.quoting import printable

MOST = 50
"""Devices that are shown one by one, those first that are not well."""
_STYLE = {"Healthy": "green", "Unhealthy": "bold red", "Unknown": "yellow"}
_URGENCY = {"Unhealthy": 0, "Unknown": 1, "Healthy": 2}


def show_status(drivers: Sequence[Mapping[str, Any]], console: Console | None = None) -> None:
    """Of each driver its state, and its devices."""
    out = console or standard_output()
    for driver in drivers:
        out.print(_head(driver))
        devices = sorted(driver["devices"], key=lambda device: _URGENCY.get(device["health"], 1))
        table = Table("device", "health", "message", "faults", box=None, header_style="bold cyan", pad_edge=False)
        faults = {path.replace("/", "-"): ids for path, ids in driver["faults"].items()}
        for device in devices[:MOST]:
            table.add_row(
                Text(printable(device["device"])),
                Text(device["health"], _STYLE.get(device["health"], "")),
                Text(printable(device["message"])),
                Text(printable(" ".join(faults.get(device["device"], ())))),
            )
        if len(devices) > MOST:
            table.add_row(f"... and {len(devices) - MOST} more")
        out.print(table)


def _head(driver: Mapping[str, Any]) -> Text:
    state = "running" if driver["running"] else "not running"
    state += ", registered" if driver["registered"] else ", not registered"
    if driver["registration_error"]:
        state += f" ({driver['registration_error']})"
    state += f", instance {driver['instance']}" if driver["instance"] else ""
    state += ", being upgraded" if driver["upgrading"] else ""
    counts = Counter(device["health"] for device in driver["devices"])
    health = ", ".join(f"{count} {name}" for name, count in counts.items())
    head = Text(printable(f"{driver['name']} on {driver['node']}: {state}"), "bold")
    more = f"health streams: {driver['streams']}, claims: {len(driver['prepared'])}, devices: {health}"
    return head.append(f"\n{printable(more)}", "not bold")
