"""A driver process: `python -m drahealth.suites.driver_checks.mutants.driver NAME DIRECTORIES...`, see `command`."""

import asyncio
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from drahealth.fakes.cluster.kube_client import KubeClient
from drahealth.suites.driver_checks.mutants.all_mutants import MUTANTS
from drahealth.suites.driver_checks.mutants.healthy import Healthy, Surroundings

HEALTHY = "healthy"
"""Name of the driver without a fault."""


_BACKEND = Path(__file__).with_name("backend.py")
_FILE = "{driver_dir}/health/{device}"
FAULTS: tuple[dict[str, Any], ...] = (
    {
        "name": "hot",
        "break": {"write": _FILE, "text": "Unhealthy too hot"},
        "change": {"write": _FILE, "text": "Unhealthy fan broken"},
        "heal": {"remove": _FILE},
        "settle": "1s",
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
        "settle": "1s",
    },
)
"""What breaks the devices of these drivers, as in a driver profile."""


PLACES = ("{node_name}", "{kubeconfig}", "{registry_dir}", "{driver_dir}", "{cdi_dir}", "{instance}")
"""The arguments of `serve`."""


def command(name: str) -> tuple[str, ...]:
    """The command line of a mutant, or of the healthy driver, for `drahealth check`."""
    return (sys.executable, "-m", __spec__.name if __spec__ else __name__, name, *PLACES)


async def main(words: Sequence[str]) -> None:
    """Runs the driver of a name until SIGTERM or SIGINT."""
    name, *places = words
    await serve(Healthy if name == HEALTHY else MUTANTS[name].driver, places)


async def serve(driver_class: type[Healthy], places: Sequence[str]) -> None:
    """Runs a driver until SIGTERM or SIGINT."""
    node, kubeconfig, *folders, instance = places
    registry_dir, data_dir, cdi_dir = map(Path, folders)
    (data_dir / "health").mkdir(exist_ok=True)  # fault adapters make no folder
    api = await KubeClient.from_kubeconfig(kubeconfig)
    try:
        driver = driver_class(Surroundings(node, registry_dir, data_dir, cdi_dir, api, instance))
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, driver.stopped.set)
        await driver.run()
    finally:
        await api.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
