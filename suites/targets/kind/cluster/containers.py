"""The containers of kind clusters: each is a node."""

from dataclasses import dataclass
from typing import Any

from drahealth.suites.targets.engine.engine import Engine

CLUSTER_LABEL = "io.x-k8s.kind.cluster"
"""The label of every container that `kind` makes for a node; its value is the name of the cluster."""
ROLE_LABEL = "io.x-k8s.kind.role"


@dataclass(frozen=True, slots=True)
class Container:
    """The container of a node of any kind cluster; `id` is the full one."""

    id: str
    name: str
    cluster: str
    role: str
    mounts: tuple[str, ...]

    @classmethod
    def of(cls, found: dict[str, Any]) -> "Container":
        """From one element of the output of `container inspect`."""
        labels = found["Config"]["Labels"] or {}
        return cls(
            id=found["Id"],
            name=found["Name"].removeprefix("/"),
            cluster=labels.get(CLUSTER_LABEL, ""),
            role=labels.get(ROLE_LABEL, ""),
            mounts=tuple(sorted(mount["Destination"] for mount in found.get("Mounts") or [])),
        )


async def node_containers(engine: Engine) -> list[Container]:
    """The nodes of all kind clusters, also stopped ones and those of others."""
    return [Container.of(found) for found in await engine.containers(CLUSTER_LABEL)]
