"""A DRA driver with two devices; one gets hot and cool. `python minimal_driver.py NODE KUBECONFIG [KUBELET_DIR]`"""

import asyncio
import signal
import sys
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from drahealth.fakes import KubeClient
from drahealth.fakes.kubelet_plugin import Device, NamespacedObject, Options, Pool, PrepareResult, start
from drahealth.proto import DeviceHealth, Health

DRIVER = "minimal.example.com"
NAMES = ("dev-0", "dev-1")


class MinimalDriver:
    pause = 15.0  # seconds between two changes of the health of dev-1

    def __init__(self, node: str) -> None:
        self.node = node
        self.claims: dict[str, str] = {}  # UID of the claim by prepared device; other drivers store it in a file

    async def prepare_resource_claims(self, claims: Sequence[dict[str, Any]]) -> Mapping[str, PrepareResult]:
        return {claim["metadata"]["uid"]: self.prepare(claim) for claim in claims}

    async def unprepare_resource_claims(self, claims: Sequence[NamespacedObject]) -> Mapping[str, Exception | None]:
        ended = {claim.uid for claim in claims}
        self.claims = {name: uid for name, uid in self.claims.items() if uid not in ended}
        return dict.fromkeys(ended)

    async def watch_health(self) -> AsyncIterator[Sequence[DeviceHealth]]:
        while True:  # between two changes, the helper repeats the last report every 10 s
            yield [self.health(NAMES[0]), self.health(NAMES[1])]
            await asyncio.sleep(self.pause)
            yield [self.health(NAMES[0]), self.health(NAMES[1], Health.UNHEALTHY, "95 degrees")]
            await asyncio.sleep(self.pause)

    def prepare(self, claim: dict[str, Any]) -> PrepareResult:
        uid, results = claim["metadata"]["uid"], claim["status"]["allocation"]["devices"]["results"]
        devices = [Device(r["pool"], r["device"], (r["request"],)) for r in results if r["driver"] == DRIVER]
        names = [one.device for one in devices]
        if refused := [name for name in names if name not in NAMES or self.claims.get(name, uid) != uid]:
            return PrepareResult(error=ValueError(f"no free device {refused[0]}"))
        self.claims |= dict.fromkeys(names, uid)
        return PrepareResult(tuple(devices))

    def health(self, name: str, health: Health = Health.HEALTHY, message: str = "") -> DeviceHealth:
        return DeviceHealth(self.node, name, health, message, updated=int(time.time()))


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
