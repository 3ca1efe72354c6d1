"""A mutant as a process: `python -m drahealth.suites.driver_checks.mutants.driver NAME DIRECTORIES...`, see `command`.

Importing this module fills the table of mutants.
"""

import asyncio
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from drahealth.fakes.cluster.kube_client import KubeClient
from drahealth.suites.driver_checks.device_plugins import fault_mutants as device_plugin_faults
from drahealth.suites.driver_checks.device_plugins import mutants as device_plugins
from drahealth.suites.driver_checks.mutants import claims, faults, lifetime, streams, taints
from drahealth.suites.driver_checks.mutants.healthy import Healthy, Surroundings
from drahealth.suites.driver_checks.mutants.table import MUTANTS
from drahealth.suites.driver_checks.verdicts import SubjectKind

__all__ = ["MUTANTS", "claims", "device_plugin_faults", "device_plugins", "faults", "lifetime", "streams", "taints"]

HEALTHY = "healthy"
"""Name of the driver without a fault."""
HEALTHY_PLUGIN = "healthy-device-plugin"
"""Name of the device plugin without a fault; it has two resources."""
WITHOUT_FAULT: dict[str, SubjectKind] = {HEALTHY: "dra-driver", HEALTHY_PLUGIN: "device-plugin"}
"""The driver and the device plugin without a fault."""
_BACKEND = Path(__file__).with_name("backend.py")
_FILE = "{driver_dir}/health/{device}"
_LINK = "{driver_dir}/links/{device}"
_TAINT = {"key": Healthy.taint_key, "effect": "NoSchedule"}
FAULTS: tuple[dict[str, Any], ...] = (
    {
        "name": "hot",
        "break": {"write": _FILE, "text": "Unhealthy too hot"},
        "change": {"write": _FILE, "text": "Unhealthy fan broken"},
        "heal": {"remove": _FILE},
        "message": "too hot",
        "changed-message": "fan broken",
        "settle": "1s",
        "taint": _TAINT,
    },
    {
        "name": "unlinked",
        "break": {"backend": str(_BACKEND), "arguments": ["{driver_dir}/backend.sock"]},
        "heal": {"backend": str(_BACKEND)},
        "settle": "1s",
    },
    {
        "name": "lost",
        "break": {"write": _FILE, "text": "Unknown no answer"},
        "heal": {"remove": _FILE},
        "health": "Unknown",
        "message": "no answer",
        "settle": "1s",
        "taint": _TAINT,
    },
)
"""What breaks the devices of these drivers, as in a driver profile."""
PLUGIN_FAULTS: tuple[dict[str, Any], ...] = (
    {
        "name": "hot",
        "break": {"write": _FILE, "text": "hot"},
        "change": {"write": _FILE, "text": "fan"},
        "heal": {"remove": _FILE},
        "settle": "1s",
    },
    {
        "name": "lost",
        "break": {"write": _LINK, "text": "lost"},
        "heal": {"remove": _LINK},
        "health": "Unknown",
        "settle": "1s",
    },
)
"""What breaks the devices of the device plugins."""
PLACES = ("{node_name}", "{kubeconfig}", "{registry_dir}", "{driver_dir}", "{cdi_dir}", "{instance}")
"""The arguments of `serve`."""
_PLUGIN_PLACES = ("{device_plugins_dir}", "{driver_dir}", "{cdi_dir}")


def subject_of(name: str) -> SubjectKind:
    """Whether this name is that of a driver, or of a device plugin."""
    return MUTANTS[name].subject if name in MUTANTS else WITHOUT_FAULT[name]


def command(name: str) -> tuple[str, ...]:
    """The command line of a mutant, or of a driver or device plugin without a fault, for `drahealth check`."""
    places = PLACES if subject_of(name) == "dra-driver" else _PLUGIN_PLACES
    return (sys.executable, "-m", __spec__.name if __spec__ else __name__, name, *places)


async def main(words: Sequence[str]) -> None:
    """Runs the driver or the device plugin of a name until SIGTERM or SIGINT."""
    name, *places = words
    if subject_of(name) == "dra-driver":
        await serve(Healthy if name == HEALTHY else MUTANTS[name].driver, places)
        return
    plugin_class = device_plugins.TwoResources if name == HEALTHY_PLUGIN else MUTANTS[name].driver
    plugin = plugin_class(*map(Path, places))
    _stop_at_signals(plugin.stopped)
    await plugin.run()


async def serve(driver_class: type[Healthy], places: Sequence[str]) -> None:
    """Runs a driver until SIGTERM or SIGINT."""
    node, kubeconfig, *folders, instance = places
    registry_dir, data_dir, cdi_dir = map(Path, folders)
    (data_dir / "health").mkdir(exist_ok=True)  # fault adapters make no folder
    api = await KubeClient.from_kubeconfig(kubeconfig)
    try:
        driver = driver_class(Surroundings(node, registry_dir, data_dir, cdi_dir, api, instance))
        _stop_at_signals(driver.stopped)
        await driver.run()
    finally:
        await api.close()


def _stop_at_signals(stopped: asyncio.Event) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
