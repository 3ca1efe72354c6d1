"""Requests to the API server of one run, before there is a client."""

from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    import aiohttp

_SEEN_TO = "&".join(
    f"exclude=poststarthook/{hook}" for hook in ("rbac/bootstrap-roles", "scheduling/bootstrap-system-priority-classes")
)


class ApiProbe:
    """Uses the token of the administrator; `close` it at the end."""

    def __init__(self, server: str, token: str) -> None:
        self._server = server
        self._token = token
        self._opened: aiohttp.ClientSession | None = None

    async def ready(self) -> bool:
        """Whether the API server reports that it is ready."""
        return await self._get("/readyz") is not None

    async def serving(self) -> bool:
        """The same without two checks: a second after its start, each API server makes its first objects if they are
        missing."""
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
        if self._opened:
            await self._opened.close()

    async def _get(self, path: str) -> dict[str, Any] | None:
        import aiohttp  # takes 0.1 s, in which the API server starts

        try:
            async with self._session().get(path) as answer:
                if answer.status != 200:
                    return None
                text = answer.content_type != "application/json"
                return {"text": await answer.text()} if text else cast("dict[str, Any]", await answer.json())
        except (TimeoutError, aiohttp.ClientError):
            return None

    def _session(self) -> "aiohttp.ClientSession":
        import aiohttp

        if self._opened is None:
            self._opened = aiohttp.ClientSession(
                base_url=self._server,
                headers={"Authorization": f"Bearer {self._token}"},
                connector=aiohttp.TCPConnector(ssl=False),
                timeout=aiohttp.ClientTimeout(total=5),
            )
        return self._opened
