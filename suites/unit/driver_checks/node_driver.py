"""A driver whose devices break by a label or an annotation of its Node, or by a file."""

import asyncio
import sys

from drahealth.fakes.cluster.api import NODES
from drahealth.proto.values import DeviceHealth, Health
from drahealth.suites.driver_checks.mutants.driver import PLACES, serve
from drahealth.suites.driver_checks.mutants.healthy import Healthy

COMMAND = [sys.executable, "-m", __spec__.name if __spec__ else __name__, *PLACES]
KEY = "example.com/broken"
"""The label and the annotation with the name of a broken device."""


class NodeDriver(Healthy):
    """Reports the device that the Node names, and the devices with files."""

    heartbeat = 1.0

    async def follow_faults(self) -> None:
        """Reports what changes in the Node, and in the files."""
        before: dict[str, DeviceHealth] = {}
        while True:
            found = self.read_faults()
            metadata = (await self.around.api.get(NODES, self.around.node))["metadata"]
            for kind in ("labels", "annotations"):
                if device := (metadata.get(kind) or {}).get(KEY):
                    found[device] = DeviceHealth(self.around.node, device, Health.UNHEALTHY, f"named in {kind}")
            if found != before:
                self.apply_faults(found)
            before = found
            await asyncio.sleep(self.poll)


if __name__ == "__main__":
    asyncio.run(serve(NodeDriver, sys.argv[1:]))
