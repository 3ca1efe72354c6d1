"""A DRA driver with two devices, one of which gets hot. `python minimal_driver.py NODE KUBECONFIG [KUBELET_DIR]`"""

import asyncio
import signal
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from drahealth.fakes import KubeClient
from drahealth.fakes.kubelet_plugin import Device, NamespacedObject, Options, Pool, PrepareResult, start
from drahealth.proto import DeviceHealth, Health

DRIVER = "minimal.example.com"
NAMES = ("dev-0", "dev-1")


class MinimalDriver:
    def __init__(self, node: str) -> None:
        self.node = node

    async def prepare_resource_claims(self, claims: Sequence[dict[str, Any]]) -> Mapping[str, PrepareResult]:
        return {claim["metadata"]["uid"]: PrepareResult(tuple(self.devices_of(claim))) for claim in claims}

    async def unprepare_resource_claims(self, claims: Sequence[NamespacedObject]) -> Mapping[str, Exception | None]:
        return {claim.uid: None for claim in claims}

    async def watch_health(self) -> AsyncIterator[Sequence[DeviceHealth]]:
        yield [DeviceHealth(self.node, name, Health.HEALTHY) for name in NAMES]
        await asyncio.sleep(10)
        hot = DeviceHealth(self.node, NAMES[1], Health.UNHEALTHY, "95 degrees")
        yield [DeviceHealth(self.node, NAMES[0], Health.HEALTHY), hot]
        await asyncio.Event().wait()  # no more changes

    def devices_of(self, claim: dict[str, Any]) -> list[Device]:
        results = claim["status"]["allocation"]["devices"]["results"]
        return [Device(r["pool"], r["device"], (r["request"],)) for r in results if r["driver"] == DRIVER]


async def main(node: str, kubeconfig: str, kubelet_dir: str = "/var/lib/kubelet") -> None:
    client = await KubeClient.from_kubeconfig(kubeconfig)
    options = Options(
        DRIVER,
        node_name=node,
        api=client,
        registrar_dir=Path(kubelet_dir) / "plugins_registry",
        plugin_data_dir=Path(kubelet_dir) / "plugins" / DRIVER,
    )
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    try:
        async with await start(MinimalDriver(node), options) as helper:
            helper.publish_resources({node: Pool([{"name": name} for name in NAMES])})
            await stopped.wait()
    finally:
        await client.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
