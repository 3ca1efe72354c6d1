"""A client of any real API server, with the same interfaces as the in-memory one."""

from collections.abc import AsyncGenerator, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from drahealth.fakes.cluster import refusals
from drahealth.fakes.cluster.access import Access, in_cluster, static_access
from drahealth.fakes.cluster.api import APPLY, NODES, PODS, STRATEGIC, ApiError, Kind, Object, Snapshot, WatchEvent
from drahealth.fakes.cluster.object_rules import check_shape, checked_namespace, is_name, namespace_of
from drahealth.fakes.cluster.pods import resized
from drahealth.fakes.program.errors import CommandError

if TYPE_CHECKING:
    from drahealth.fakes.cluster.kube_connection import KubeConnection


# A client of any real API server that implements the same Protocols as the in-memory one.

_READY_INTERVAL = 0.1
"""Seconds between questions whether the server is ready."""


class KubeClient:
    """A client of a real API server. If the server is unreachable, calls raise `ApiError` 503."""

    def __init__(self, connection: "KubeConnection", fields: str = "", labels: str = "") -> None:
        self._connection = connection
        selectors = {"fieldSelector": fields, "labelSelector": labels}
        self._selected = {name: selector for name, selector in selectors.items() if selector}

    @classmethod
    async def from_kubeconfig(cls, path: Path | str, context: str | None = None) -> "KubeClient":
        """A client for a context of a kubeconfig, by default the current one. ValueError if it cannot be read."""
        return cls._of(await access_of(Path(path), context))

    @classmethod
    def in_cluster(cls) -> "KubeClient":
        """A client of the API server of the pod in which this process runs. ValueError outside of a pod."""
        return cls._of(in_cluster())

    @classmethod
    def _of(cls, access: Access) -> "KubeClient":
        from drahealth.fakes.cluster.kube_connection import KubeConnection  # imports the official client

        return cls(KubeConnection(access))

    def selecting(self, fields: str = "", *, labels: str = "") -> "KubeClient":
        """The same client, limited to objects that match these selectors. Do not close it."""
        return KubeClient(self._connection, fields, labels)

    @property
    def connection(self) -> "KubeConnection":
        """The connection for other uses: web sockets, metrics."""
        return self._connection

    async def close(self) -> None:
        """Closes the connections; watches end."""
        await self._connection.close()

    async def create(self, kind: Kind, obj: Object) -> Object:
        """Creates and returns the stored object."""
        check_shape(kind, obj)
        path = kind.path(namespace_of(kind, obj))
        return await self._connection.call("POST", path, body=_whole(kind, obj))

    async def kind_of(self, obj: Object) -> Kind:
        """The kind of an object, by discovery; 404 if the server does not have it."""
        version, name = str(obj.get("apiVersion")), str(obj.get("kind"))
        answer = await self._connection.call("GET", Kind("", "", version, namespaced=False).path().rstrip("/"))
        names = {one["name"]: one for one in answer["resources"]}
        found = next((one for key, one in names.items() if one["kind"] == name and "/" not in key), None)
        if found is None:
            raise ApiError(404, "NotFound", f"{version} has no kind {name!r}")
        return Kind(
            name, found["name"], version, namespaced=found["namespaced"], has_status=f"{found['name']}/status" in names
        )

    async def get(self, kind: Kind, name: str, namespace: str | None = None) -> Object:
        """The object; 404 NotFound if it does not exist."""
        return await self._connection.call("GET", _path(kind, name, namespace))

    async def replace(self, kind: Kind, obj: Object) -> Object:
        """Stores spec and metadata; the status stays."""
        return await self._connection.call("PUT", _own_path(kind, obj), body=_whole(kind, obj))

    async def replace_status(self, kind: Kind, obj: Object) -> Object:
        """Stores the status; spec and metadata stay."""
        return await self._connection.call("PUT", _own_path(kind, obj) + "/status", body=_whole(kind, obj))

    async def patch_status(self, kind: Kind, name: str, namespace: str, patch: Object) -> Object:
        """Changes the status by a strategic merge patch."""
        return await self._connection.call(
            "PATCH", _path(kind, name, namespace) + "/status", body=patch, type_=STRATEGIC
        )

    async def apply(self, kind: Kind, obj: Object, manager: str, *, dry_run: bool = False) -> Object:
        """Applies the fields of an object, also those of other managers; creates a missing object."""
        query = {"fieldManager": manager, "force": "true", "fieldValidation": "Strict"}
        query |= {"dryRun": "All"} if dry_run else {}
        path = _own_path(kind, obj)
        return await self._connection.call("PATCH", path, query=query, body=_whole(kind, obj), type_=APPLY)

    async def apply_status(self, kind: Kind, obj: Object, manager: str) -> Object:
        """Applies fields of the status; 500 for two elements of a list with the same keys."""
        query, path = {"fieldManager": manager, "force": "true"}, _own_path(kind, obj) + "/status"
        return await self._connection.call("PATCH", path, query=query, body=_whole(kind, obj), type_=APPLY)

    async def delete(self, kind: Kind, name: str, namespace: str | None = None, grace: int | None = None) -> None:
        """Deletes the object; `grace` in seconds, None for the kind's default."""
        options: Object = {"apiVersion": "v1", "kind": "DeleteOptions"}
        if grace is not None:
            options["gracePeriodSeconds"] = grace
        await self._connection.call("DELETE", _path(kind, name, namespace), body=options)

    async def bind(self, name: str, namespace: str, node: str) -> None:
        """Binds a pod to a node; 409 Conflict if it is already bound."""
        target = {"apiVersion": NODES.api_version, "kind": NODES.kind, "name": node}
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}
        await self._connection.call("POST", _path(PODS, name, namespace) + "/binding", body=body)

    async def add_ephemeral_container(self, name: str, namespace: str, container: Object) -> None:
        """Adds an ephemeral container to a pod. Reads the pod again after each 409 Conflict."""

        def added(pod: Object) -> Object:
            spec = {**pod["spec"], "ephemeralContainers": [*(pod["spec"].get("ephemeralContainers") or ()), container]}
            return {**pod, "spec": spec}

        await self._change_pod(name, namespace, "ephemeralcontainers", added)

    async def resize_pod(self, name: str, namespace: str, limits: Mapping[str, str]) -> None:
        """Asks for other limits and requests of each container. Reads the pod again after each 409 Conflict."""
        await self._change_pod(name, namespace, "resize", lambda pod: resized(pod, limits))

    async def _change_pod(self, name: str, namespace: str, part: str, change: Callable[[Object], Object]) -> None:
        """Changes a subresource of the pod."""
        from tenacity import AsyncRetrying, retry_if_exception  # drivers in images do not need it

        path = _path(PODS, name, namespace)

        async def put() -> None:
            pod = await self._connection.call("GET", path)
            await self._connection.call("PUT", f"{path}/{part}", body=change(pod))

        await AsyncRetrying(retry=retry_if_exception(_is_conflict))(put)

    async def is_allowed(self, verb: str, kind: Kind, *, subresource: str = "", namespace: str = "") -> bool:
        """Whether the user may do this (SelfSubjectAccessReview), in one namespace or in all. Raises `ApiError`."""
        group = kind.api_version.rpartition("/")[0]
        attributes = {"group": group, "resource": kind.plural, "subresource": subresource, "verb": verb}
        review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview"}
        body = {**review, "spec": {"resourceAttributes": {**attributes, "namespace": namespace}}}
        path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
        answer = await self._connection.call("POST", path, body=body)
        return bool((answer.get("status") or {}).get("allowed"))

    async def wait_ready(self) -> None:
        """Waits until the server reports that it is ready."""
        from tenacity import AsyncRetrying, retry_if_exception_type, wait_fixed

        retrying = AsyncRetrying(retry=retry_if_exception_type(ApiError), wait=wait_fixed(_READY_INTERVAL))
        await retrying(self._connection.text, "/readyz")

    async def snapshot(self, kind: Kind, namespace: str | None = None) -> Snapshot:
        """The list, and the revision from which `watch` continues without loss."""
        answer = await self._connection.call("GET", kind.path(namespace), query=self._selected)
        return Snapshot([_whole(kind, obj) for obj in answer["items"] or ()], answer["metadata"]["resourceVersion"])

    async def list(self, kind: Kind, namespace: str | None = None) -> list[Object]:
        """All objects of the kind, in one namespace or in all."""
        return (await self.snapshot(kind, namespace)).objects

    async def watch(
        self, kind: Kind, namespace: str | None = None, since: str | None = None
    ) -> AsyncGenerator[WatchEvent, None]:
        """All existing objects as ADDED, then every change; or, with `since` from `snapshot`, every change after it.

        Ends when the server ends it or stops, or no longer has the changes since the last event. If it has no changes
        since the caller's own `since`, 410 Expired is raised.
        """
        start = since
        if start is None:
            objects, start = await self.snapshot(kind, namespace)
            for obj in objects:
                yield WatchEvent("ADDED", obj)
        try:
            async for event in self._events(kind, namespace, start):
                yield event
        except ApiError as error:
            if error.status != 410 or since is not None:
                raise

    async def _events(self, kind: Kind, namespace: str | None, since: str) -> AsyncGenerator[WatchEvent, None]:
        query = {"watch": "true", "resourceVersion": since, "allowWatchBookmarks": "true", **self._selected}
        async for event in self._connection.lines(kind.path(namespace), query):
            if event["type"] == "ERROR":
                status: Mapping[str, Any] = event["object"]
                raise ApiError(status.get("code", 500), status.get("reason", ""), status.get("message", ""))
            if event["type"] != "BOOKMARK":
                yield WatchEvent(event["type"], event["object"])


async def access_of(path: Path, context: str | None = None) -> Access:
    """The access that a kubeconfig gives. ValueError if it cannot be read."""
    if context is None and (found := static_access(path)):
        return found
    from drahealth.fakes.cluster.kube_connection import access

    return await access(path, context)


def _is_conflict(error: BaseException) -> bool:
    return isinstance(error, ApiError) and error.status == 409


def _whole(kind: Kind, obj: Object) -> Object:
    return {**obj, "apiVersion": kind.api_version, "kind": kind.kind}


def _own_path(kind: Kind, obj: Object) -> str:
    check_shape(kind, obj)
    return _path(kind, obj["metadata"].get("name", ""), namespace_of(kind, obj))


def _path(kind: Kind, name: str, namespace: str | None) -> str:
    """The path of one object. Names are checked: an empty name would be the path of all objects."""
    namespace = checked_namespace(kind, namespace)
    if not is_name(name, kind):
        raise refusals.not_found(kind, name)
    return kind.path(namespace, name)


# The API server of a program: from a kubeconfig, or of the pod in which it runs.

_HINT = "pass a kubeconfig with --kubeconfig (`drahealth manager` writes one into its root directory)"


async def client_of(kubeconfig: Path | None) -> KubeClient:
    """A client of the API server. Raises CommandError 3 if neither is given."""
    try:
        return await KubeClient.from_kubeconfig(kubeconfig) if kubeconfig else KubeClient.in_cluster()
    except ValueError as error:
        raise CommandError(f"{error}; {_HINT}", 3) from None
