"""What a user may do in a cluster, as its API server answers."""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass

from drahealth.fakes.cluster.api import Kind
from drahealth.fakes.cluster.kube_client import KubeClient


@dataclass(frozen=True, slots=True)
class Permission:
    """A right that a command uses."""

    kind: Kind
    verbs: tuple[str, ...]
    subresource: str = ""
    everywhere: bool = False
    """In all namespaces; otherwise in that of the command."""
    optional: bool = False

    @property
    def resource(self) -> str:
        """As in a rule of RBAC, such as pods/exec."""
        return f"{self.kind.plural}/{self.subresource}" if self.subresource else self.kind.plural


async def missing_permissions(
    api: KubeClient, wanted: Iterable[Permission], namespace: str = ""
) -> list[tuple[Permission, str]]:
    """The rights that the user does not have, each with the verb. `namespace` is that of the command.

    Raises ApiError.
    """
    asked = [(one, verb) for one in wanted for verb in one.verbs]

    async def is_allowed(one: Permission, verb: str) -> bool:
        within = namespace if one.kind.namespaced and not one.everywhere else ""
        return await api.is_allowed(verb, one.kind, subresource=one.subresource, namespace=within)

    allowed = await asyncio.gather(*(is_allowed(one, verb) for one, verb in asked))
    return [found for found, right in zip(asked, allowed, strict=True) if not right]
