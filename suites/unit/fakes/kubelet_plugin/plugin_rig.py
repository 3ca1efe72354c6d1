"""A driver on the helper for its tests, what it publishes, and a kubelet's ends of its sockets."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc.aio

from drahealth.fakes.clock import JumpClock
from drahealth.fakes.cluster.api import CLAIMS, SLICES, Object
from drahealth.fakes.cluster.api_server.server import ApiServer
from drahealth.fakes.kubelet_plugin import (
    Device,
    DRAPlugin,
    Helper,
    NamespacedObject,
    Options,
    Pool,
    PrepareResult,
    start,
)
from drahealth.proto.health_apis import HealthApi
from drahealth.proto.services import GET_INFO, NOTIFY_REGISTRATION, PREPARE, UNPREPARE, Unary
from drahealth.proto.sockets import target
from drahealth.suites.unit.endings import PATIENCE
from drahealth.suites.unit.fakes.driver_rig import Stream

DRIVER = "gpu.example.com"
MAIN = f"node-a-{DRIVER}"
"""How the slices of the node's own pool begin."""
REQUEST = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]}}


@dataclass
class Plugin:
    """Prepares one device for each claim, and keeps what it was asked."""

    prepared: list[list[str]] = field(default_factory=list)
    unprepared: list[NamespacedObject] = field(default_factory=list)
    results: dict[str, PrepareResult] = field(default_factory=dict)
    """What it answers for claims of these names."""

    async def prepare_resource_claims(self, claims: Sequence[Object]) -> Mapping[str, PrepareResult]:
        self.prepared.append([claim["metadata"]["name"] for claim in claims])
        return {claim["metadata"]["uid"]: self.result(claim) for claim in claims}

    async def unprepare_resource_claims(self, claims: Sequence[NamespacedObject]) -> Mapping[str, Exception | None]:
        self.unprepared += claims
        return {claim.uid: None for claim in claims}

    def result(self, claim: Object) -> PrepareResult:
        device = Device("node-a", "gpu-0", ("gpu/big",), (f"{DRIVER}/gpu=gpu-0",))
        return self.results.get(claim["metadata"]["name"], PrepareResult((device,)))


class PluginRig:
    """A place for drivers, on a clock that jumps."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.clock = JumpClock()
        self.api = ApiServer(clock=self.clock)
        self.errors: list[str] = []

    def options(self, **options: Any) -> Options:
        folders = {"registrar_dir": self.root / "registry", "plugin_data_dir": self.root / "data"}
        told = {"on_error": lambda error: self.errors.append(str(error))}
        return Options(
            DRIVER, **{"node_name": "node-a", "api": self.api, "heartbeat": 0.0, **folders, **told, **options}
        )

    @asynccontextmanager
    async def running(self, plugin: DRAPlugin | None = None, **options: Any) -> AsyncIterator[Helper]:
        async with await start(plugin or Plugin(), self.options(**options), clock=self.clock) as helper:
            yield helper

    async def claim(self, name: str = "gpus", *, allocated: bool = True) -> dict[str, str]:
        """A claim of the API, as a kubelet names it."""
        made = await self.api.create(CLAIMS, {"metadata": {"name": name, "namespace": "default"}, "spec": REQUEST})
        if allocated:
            made["status"] = {"allocation": {"devices": {"results": []}}}
            await self.api.replace_status(CLAIMS, made)
        return {"namespace": "default", "name": name, "uid": made["metadata"]["uid"]}

    async def slices(self) -> dict[str, tuple[str, int, list[str]]]:
        """Pool, generation and devices of each slice."""
        found = [(s["metadata"]["name"], s["spec"]) for s in await self.api.list(SLICES)]
        return {n: (s["pool"]["name"], s["pool"]["generation"], [d["name"] for d in s["devices"]]) for n, s in found}

    def sockets(self) -> list[str]:
        """The socket files that a kubelet could see, and any others."""
        return sorted(str(path.relative_to(self.root)) for path in self.root.rglob("*") if path.is_socket())

    # -- a kubelet's ends

    async def call(self, method: Unary[Any, Any], where: str = "data/dra.sock", **fields: Any) -> Any:
        async with grpc.aio.insecure_channel(target(self.root / where)) as channel:
            return await method.stub(channel)(method.request(**fields), timeout=PATIENCE)

    async def prepare(self, *claims: dict[str, str], version: str = "v1.DRAPlugin", instance: str = "") -> Any:
        where = f"data/dra-{instance}.sock" if instance else "data/dra.sock"
        return (await self.call(PREPARE[version], where, claims=claims)).claims

    async def unprepare(self, *claims: dict[str, str]) -> Any:
        return (await self.call(UNPREPARE["v1.DRAPlugin"], claims=claims)).claims

    async def ask(self, where: str = f"registry/{DRIVER}-reg.sock") -> Any:
        return await self.call(GET_INFO, where)

    async def notify_registration(self, ok: bool = True, error: str = "") -> None:
        where = f"registry/{DRIVER}-reg.sock"
        await self.call(NOTIFY_REGISTRATION, where, plugin_registered=ok, error=error)

    @asynccontextmanager
    async def watch(self, health_api: HealthApi, where: str = "data/dra.sock") -> AsyncIterator[Stream]:
        async with grpc.aio.insecure_channel(target(self.root / where)) as channel:
            stream = Stream(channel, health_api)
            yield stream
            stream.cancel()


# -- what is published


def pool(count: int, *, name: str = "gpu", **more: Any) -> Pool:
    return Pool([{"name": f"{name}-{number}", **more} for number in range(count)])


def devices(count: int, name: str = "gpu") -> list[str]:
    return [f"{name}-{number}" for number in range(count)]


def foreign(name: str, driver: str, node: str, generation: int = 1) -> Object:
    """A slice of somebody's."""
    spec = {
        "driver": driver,
        "nodeName": node,
        "pool": {"name": node, "generation": generation, "resourceSliceCount": 1},
        "devices": [{"name": "other"}],
    }
    return {"apiVersion": SLICES.api_version, "kind": SLICES.kind, "metadata": {"name": name}, "spec": spec}


async def slices(api: ApiServer, wanted: dict[str, tuple[str, int, list[str]]]) -> None:
    """Returns once the slices are these: pool, generation and devices of each."""
    async with aclosing(api.watch(SLICES)) as changes:
        found: dict[str, tuple[str, int, list[str]]] = {}
        while found != wanted:
            event = await anext(changes)
            spec = event.object["spec"]
            found[event.object["metadata"]["name"]] = (
                spec["pool"]["name"],
                spec["pool"]["generation"],
                [device["name"] for device in spec["devices"]],
            )
            if event.type == "DELETED":
                del found[event.object["metadata"]["name"]]
