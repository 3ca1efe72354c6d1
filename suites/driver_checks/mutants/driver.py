"""A driver process: `python -m drahealth.suites.driver_checks.mutants.driver NAME DIRECTORIES...`, see `command`."""

import asyncio
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from drahealth.fakes.cluster.kube_client import KubeClient
from drahealth.proto.values import Health
from drahealth.suites.driver_checks.declared_faults import Fault, RemoveFile, TellBackend, WriteFile
from drahealth.suites.driver_checks.mutants.all_mutants import MUTANTS
from drahealth.suites.driver_checks.mutants.healthy import Healthy, Surroundings

HEALTHY = "healthy"
"""Name of the driver without a fault."""


_BACKEND = Path(__file__).with_name("backend.py")
_FILE = "{driver_dir}/health/{device}"
FAULTS = (
    Fault(
        "hot",
        WriteFile(_FILE, "Unhealthy too hot"),
        RemoveFile(_FILE),
        changes=WriteFile(_FILE, "Unhealthy fan broken"),
        settle=1,
    ),
    Fault(
        "unlinked",
        TellBackend(_BACKEND, ("{driver_dir}/backend.sock",), "break {device}"),
        TellBackend(_BACKEND, (), "heal {device}"),
        settle=1,
    ),
    Fault("lost", WriteFile(_FILE, "Unknown no answer"), RemoveFile(_FILE), health=Health.UNKNOWN, settle=1),
)
"""What breaks the devices of these drivers."""


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
