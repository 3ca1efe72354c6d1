"""A device plugin as a process: `python -m ...device_plugins.process NAME DIRECTORIES`, see `plugin_command`."""

import asyncio
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from drahealth.suites.driver_checks.device_plugins.mutants import TwoResources
from drahealth.suites.driver_checks.mutants.all_mutants import MUTANTS

HEALTHY_PLUGIN = "healthy-device-plugin"
"""Name of the device plugin without a fault; it has two resources."""


_FILE = "{driver_dir}/health/{device}"
PLUGIN_FAULTS = ({"name": "hot", "break": {"write": _FILE, "text": "hot"}, "heal": {"remove": _FILE}, "settle": "1s"},)
"""What breaks the devices of these plugins, as in a driver profile."""


def plugin_command(name: str) -> tuple[str, ...]:
    """The command line of a mutant, or of the healthy device plugin, for `drahealth check`."""
    places = ("{device_plugins_dir}", "{driver_dir}", "{cdi_dir}")
    return (sys.executable, "-m", __spec__.name if __spec__ else __name__, name, *places)


async def main(words: Sequence[str]) -> None:
    """Runs a device plugin until SIGTERM or SIGINT."""
    name, *folders = words
    plugin_class = TwoResources if name == HEALTHY_PLUGIN else MUTANTS[name].driver
    plugin = plugin_class(*map(Path, folders))
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, plugin.stopped.set)
    await plugin.run()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
