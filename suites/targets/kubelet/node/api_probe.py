"""Requests to the API server of one run, before there is a client."""

from typing import Any, cast

import aiohttp

_SEEN_TO = "&".join(
    f"exclude=poststarthook/{hook}" for hook in ("rbac/bootstrap-roles", "scheduling/bootstrap-system-priority-classes")
)


class ApiProbe:
    """Uses the token of the administrator; `close` it at the end."""

    def __init__(self, server: str, token: str) -> None:
        self._session = aiohttp.ClientSession(
            base_url=server,
            headers={"Authorization": f"Bearer {token}"},
            connector=aiohttp.TCPConnector(ssl=False),  # the certificate is self-signed
            timeout=aiohttp.ClientTimeout(total=5),
        )

    async def ready(self) -> bool:
        """Whether the API server reports that it is ready."""
        return await self._get("/readyz") is not None

    async def ready_again(self) -> bool:
        """The same for a restart with the same store: it checks the objects of its first start again a second later,
        and does not wait for that."""
        return await self._get(f"/readyz?{_SEEN_TO}") is not None

    async def node(self, name: str) -> dict[str, Any] | None:
        """The Node object; None while there is none."""
        return await self._get(f"/api/v1/nodes/{name}")

    async def lease(self, name: str) -> dict[str, Any] | None:
        """The Lease of the Node, which its kubelet renews; None while there is none."""
        return await self._get(f"/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{name}")

    async def has_namespace(self, name: str) -> bool:
        """Whether the namespace exists. The API server makes `default` shortly after it is ready."""
        return await self._get(f"/api/v1/namespaces/{name}") is not None

    async def close(self) -> None:
        """Closes the connections."""
        await self._session.close()

    async def _get(self, path: str) -> dict[str, Any] | None:
        try:
            async with self._session.get(path) as answer:
                if answer.status != 200:
                    return None
                text = answer.content_type != "application/json"
                return {"text": await answer.text()} if text else cast("dict[str, Any]", await answer.json())
        except (TimeoutError, aiohttp.ClientError):
            return None
