"""An in-memory API server with the features that a kubelet, a driver and a scheduler need.

It follows the rules of a real API server where they matter to device health. These are optimistic concurrency, the
status subresource, graceful deletion, finalizers, watches without loss, the validation of `allocatedResourcesStatus`
and the feature gates. Every call takes effect immediately and in order; only `watch` and `wait_ready` wait.
"""

import asyncio
import uuid
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

from drahealth.fakes.cluster import refusals
from drahealth.fakes.cluster.api import (
    BUDGETS,
    CRDS,
    EVENTS,
    NAMESPACES,
    PODS,
    REPLICA_SETS,
    STRATEGIC,
    ApiError,
    Kind,
    Object,
    Snapshot,
    WatchEvent,
    custom_kinds,
    key_of,
    timestamp,
)
from drahealth.fakes.cluster.api_server import deletion, strategies
from drahealth.fakes.cluster.api_server import deletion as collection
from drahealth.fakes.cluster.api_server.apply_patches import (
    ApplyOptions,
    Writer,
    apply_change,
    apply_patch,
    updated_entries,
)
from drahealth.fakes.cluster.api_server.deletion import DeleteOptions, Deletion
from drahealth.fakes.cluster.api_server.lists import ListOptions, Matches, Page, Selector, everything, page_of, selected
from drahealth.fakes.cluster.api_server.patches import Change, merged_lists, patch_change
from drahealth.fakes.cluster.api_server.pod_requests import bound, budget_status, check_eviction
from drahealth.fakes.cluster.api_server.pod_statuses import KEP_RULES, FieldRules, HealthFields, validate_status
from drahealth.fakes.cluster.api_server.served_kinds import KindRegistry
from drahealth.fakes.cluster.api_server.storage import ObjectFiles, Storage, copied, fast_copy
from drahealth.fakes.cluster.api_server.strategies import changed_part
from drahealth.fakes.cluster.object_rules import check_shape, checked_namespace, namespace_of
from drahealth.fakes.cluster.pods import resized, with_condition
from drahealth.proto.clock import Clock, SystemClock
from drahealth.proto.events import Observe, StatusWritten, ignore

_NO_GATES: Mapping[str, bool] = {}


class ApiServer:
    """An API server in memory. Objects that are passed or returned belong to the caller.

    `gates` by name, enabled by default; `rules` apply to `allocatedResourcesStatus`. Raises ValueError for gates that a
    real API server rejects at its start. With `files`, objects outlive the server; raises OSError if they cannot be
    used. `observe` gets an event for each write of a Pod status.
    """

    def __init__(
        self,
        *,
        rules: FieldRules = KEP_RULES,
        gates: Mapping[str, bool] = _NO_GATES,
        clock: Clock | None = None,
        files: ObjectFiles | None = None,
        observe: Observe = ignore,
    ) -> None:
        self._rules = rules
        self._observe = observe
        self._fields = HealthFields.at_start(rules, gates)
        self._clock = clock or SystemClock()
        self._storage = Storage(files)
        self.kinds = KindRegistry()
        """The kinds that it serves."""
        self._writer: Writer | None = None
        self._ready = asyncio.Event()
        self._ready.set()
        for name in ("default", "kube-system"):
            if self._storage.get(NAMESPACES, ("", name)) is None:
                self._put(
                    NAMESPACES, strategies.created(NAMESPACES, {"metadata": {"name": name}}, self._server_fields())
                )

    # Calls of an administrator

    def restart(self, gates: Mapping[str, bool] | None = None) -> None:
        """Ends all watches and starts again with the same storage and these gates; None keeps the gates."""
        if gates is not None:
            self._fields = HealthFields.at_start(self._rules, gates)
        self.down()
        self.up()

    def down(self) -> None:
        """Ends all watches; every call fails with 503 until `up`."""
        self._ready.clear()
        self._storage.end_watches()

    def up(self) -> None:
        """Starts again with the same storage."""
        self._ready.set()

    async def wait_ready(self) -> None:
        """Waits until the server is ready."""
        await self._ready.wait()

    @contextmanager
    def dry_run(self, wanted: bool) -> Iterator[None]:
        """The calls inside have no effect if it is wanted, but all of their results."""
        with self._storage.dry_run(wanted):
            yield

    @contextmanager
    def writing(self, writer: Writer | None) -> Iterator[None]:
        """The calls inside record the writer in `managedFields`; without a writer, the record stays as it is."""
        before, self._writer = self._writer, writer
        try:
            yield
        finally:
            self._writer = before

    # Calls of a client

    def time(self) -> str:
        """The time of the server, as RFC 3339."""
        return timestamp(self._clock.wall())

    async def create(self, kind: Kind, obj: Object) -> Object:
        """Creates and returns the stored object; 404 for an unknown namespace, 409 AlreadyExists, 422 Invalid."""
        self._check_ready()
        new = strategies.created(kind, copied(obj), self._server_fields())
        namespace, name = namespace_of(kind, new), new["metadata"]["name"]
        if namespace is not None:
            self._check_open(kind, namespace, name)
        if self._storage.get(kind, (namespace or "", name)) is not None:
            raise refusals.already_exists(kind, name)
        if kind == EVENTS:
            self._expire_events()
        return self._served(kind, self._put(kind, self._gated(kind, new, None)))

    async def kind_of(self, obj: Object) -> Kind:
        """The kind of an object, in the version in which it is stored. It is served from now on.

        404 for a kind that Kubernetes does not have.
        """
        return self.kinds[self.kinds.kind_of(obj)].stored

    async def get(self, kind: Kind, name: str, namespace: str | None = None) -> Object:
        """The object; 404 NotFound if it does not exist."""
        self._check_ready()
        return self._served(kind, self._stored(kind, name, namespace))

    def check_revision(self, revision: str) -> None:
        """Raises `ApiError` for the revision of a get: 500 if it is not a number, 504 if it is of the future."""
        if revision and not revision.isdecimal():
            raise refusals.wrong_watch_revision(revision)
        if revision and int(revision) > self._storage.revision:
            raise refusals.too_new(int(revision), self._storage.revision)

    async def list(self, kind: Kind, namespace: str | None = None) -> list[Object]:
        """All objects of the kind in the order of namespace and name."""
        return (await self.snapshot(kind, namespace)).objects

    async def snapshot(self, kind: Kind, namespace: str | None = None, matches: Matches = everything) -> Snapshot:
        """The list of objects that match, and the revision from which `watch` continues without loss."""
        self._check_ready()
        objects = [self._served(kind, obj) for obj in self._storage.objects(kind, namespace) if matches(obj)]
        return Snapshot(objects, str(self._storage.revision))

    async def page(self, kind: Kind, namespace: str | None, matches: Selector, options: ListOptions) -> Page:
        """A page of a list. 410 Expired for an old revision that is no longer known, 504 for one of the future."""
        self._check_ready()
        if options.revision and not options.revision.isdecimal():
            raise refusals.wrong_revision(options.revision)
        revision = options.start.revision if options.start else int(options.revision or 0)
        if revision > self._storage.revision:
            raise refusals.too_new(revision, self._storage.revision)
        if options.start is None and not options.exact:
            revision = self._storage.revision
        objects = self._storage.objects_at(kind, namespace, revision)
        found = page_of(objects, revision, options.start, options.page_limit(kind), matches)
        return replace(found, objects=[self._served(kind, obj) for obj in found.objects])

    async def replace(self, kind: Kind, obj: Object) -> Object:
        """Stores spec and metadata; the status stays. An object that loses its last finalizer is deleted if it is
        marked for deletion.
        """
        old, new = self._precondition(kind, obj)
        new = self._gated(kind, strategies.updated(kind, new, old, self.time()), old)
        return self._served(kind, self._settle(kind, new))

    async def replace_status(self, kind: Kind, obj: Object) -> Object:
        """Stores the status; spec and metadata stay. 422 Invalid for a health entry that breaks a rule."""
        if not kind.has_status:
            raise refusals.no_such_resource()
        old, new = self._precondition(kind, obj)
        asked = strategies.status_updated(kind, new, old)
        new = self._gated(kind, asked, old)
        if kind == PODS:
            self._check_pod_status(new, changed=asked.get("status") != self._fields.served(old).get("status"))
        return self._served(kind, self._put(kind, new))

    async def patch(
        self, kind: Kind, name: str, namespace: str | None, change: Change, *, status: bool = False
    ) -> Object:
        """Stores the result of a change, as `replace` or `replace_status` do; its revision is a precondition."""
        self._check_ready()
        old = self._stored(kind, name, namespace)
        new = change(copied(old))
        check_shape(kind, new)
        if (uid := new["metadata"].get("uid", old["metadata"]["uid"])) != old["metadata"]["uid"]:
            raise refusals.invalid(kind, name, [refusals.invalid_value("metadata.uid", uid, "field is immutable")])
        if new["metadata"].get("name") != name:
            raise refusals.other_name(str(new["metadata"].get("name") or ""), name)
        if new["metadata"].get("namespace") != old["metadata"].get("namespace"):
            raise refusals.other_namespace()
        return await (self.replace_status(kind, new) if status else self.replace(kind, new))

    async def change_pod(self, name: str, namespace: str, part: str, change: Change) -> Object:
        """Changes a pod through this subresource, with the preconditions of `replace`."""
        self._check_ready()
        old, new = self._precondition(PODS, change(copied(self._stored(PODS, name, namespace))))
        return self._served(PODS, self._put(PODS, changed_part(part, old, new)))

    async def patch_status(self, kind: Kind, name: str, namespace: str, patch: Object) -> Object:
        """Changes the status by a strategic merge patch."""
        return await self.patch(kind, name, namespace, patch_change(kind, STRATEGIC, patch), status=True)

    async def apply(self, kind: Kind, obj: Object, manager: str, *, dry_run: bool = False) -> Object:
        """Applies the fields of an object, also those of other managers; creates a missing object.

        `ApiError` 400 for a field of the wrong type, and 500 for one that the kind does not have.
        """
        from drahealth.fakes.cluster.api_server.body_decoding import typed  # only here: it loads all messages

        patch = {**obj, "apiVersion": kind.api_version, "kind": kind.kind}
        check_shape(kind, patch)
        apply = apply_change(kind, patch, ApplyOptions(manager, False, self.time()))
        typed(kind, patch)
        change: Change = lambda old: typed(kind, apply(old))  # noqa: E731
        namespace = namespace_of(kind, patch)
        with self.dry_run(dry_run), self.writing(None):
            try:
                return await self.patch(kind, patch["metadata"]["name"], namespace, change)
            except ApiError as error:
                if error.status != 404:
                    raise
            metadata = {} if namespace is None else {"namespace": namespace}
            return await self.create(kind, change({**patch, "metadata": metadata}))

    async def apply_status(self, kind: Kind, obj: Object, manager: str) -> Object:
        """Applies fields of the status; a field of another manager becomes one of this manager, too."""
        metadata, options = obj["metadata"], ApplyOptions(manager, True, self.time())
        change = partial(apply_patch, patch=obj, lists=merged_lists(kind), options=options)
        return await self.patch(kind, metadata["name"], metadata.get("namespace"), change, status=True)

    async def delete(self, kind: Kind, name: str, namespace: str | None = None, grace: int | None = None) -> None:
        """Marks the object for deletion; it is deleted when no finalizer is left. A namespace is deleted with its
        objects.
        """
        await self.delete_with(kind, name, namespace, DeleteOptions(grace))

    async def delete_with(self, kind: Kind, name: str, namespace: str | None, options: DeleteOptions) -> Deletion:
        """Deletes as `delete` does, with all options of the API. 409 Conflict for a wrong precondition."""
        self._check_ready()
        deleted = self._delete(kind, self._stored(kind, name, namespace), options)
        return replace(deleted, object=self._served(kind, deleted.object))

    async def watch(
        self, kind: Kind, namespace: str | None = None, since: str | None = None, matches: Matches = everything
    ) -> AsyncGenerator[WatchEvent, None]:
        """All existing objects as ADDED, then every change; or, with `since` from `snapshot`, every change after it.

        Only for objects that match; one that begins or ceases to match is ADDED or DELETED. Raises 410 Expired if
        `since` is too old. Starts with the first request for an event.
        """
        self._check_ready()
        fields = self._fields
        with self._storage.watching(kind, namespace, _revision(since)) as changes:
            while (event := await changes.get()) is not None:
                if (change := selected(event, matches)) is None:
                    continue
                served = fields.served(change.object) if kind == PODS else change.object
                yield WatchEvent(change.type, fast_copy(served))

    async def bind(self, name: str, namespace: str, node: str) -> None:
        """Binds a pod to a node, which need not exist, and sets its conditions.

        409 Conflict if the pod is already bound, is being deleted, or has scheduling gates.
        """
        await self.bind_with(name, namespace, node, {})

    async def bind_with(self, name: str, namespace: str, node: str, metadata: Object) -> None:
        """Binds as `bind` does.

        `metadata` is that of the binding: its UID is a precondition, and its annotations are added to those of the
        pod.
        """
        self._check_ready()
        self._put(PODS, bound(self._stored(PODS, name, namespace), node, metadata, self.time()))

    async def evict(self, name: str, namespace: str, options: DeleteOptions) -> None:
        """Deletes a pod if no PodDisruptionBudget forbids it; 429 TooManyRequests if one does."""
        self._check_ready()
        pod = self._stored(PODS, name, namespace)
        check_eviction(pod, self._storage.objects(BUDGETS, namespace))
        deletion.marked_for_deletion(PODS, pod, options, self._clock.wall())  # checks the preconditions
        reason, message = "EvictionByEvictionAPI", "Eviction API: evicting"
        status = with_condition(
            pod["status"], "DisruptionTarget", True, now=self.time(), reason=reason, message=message
        )
        evicted = self._put(PODS, {**pod, "status": status})
        self._delete(PODS, evicted, replace(options, preconditions={}))

    async def add_ephemeral_container(self, name: str, namespace: str, container: Object) -> None:
        """Adds an ephemeral container to the spec of a pod."""
        self._check_ready()
        pod = self._stored(PODS, name, namespace)
        added = [*(pod["spec"].get("ephemeralContainers") or ()), container]
        self._put(PODS, {**pod, "spec": {**pod["spec"], "ephemeralContainers": added}})

    async def resize_pod(self, name: str, namespace: str, limits: Mapping[str, str]) -> None:
        """Changes limits and requests of each container in the spec of a pod."""
        self._check_ready()
        pod = self._stored(PODS, name, namespace)
        metadata = {**pod["metadata"], "generation": pod["metadata"]["generation"] + 1}
        self._put(PODS, {**resized(pod, limits), "metadata": metadata})

    # Internals

    def _check_pod_status(self, new: Object, *, changed: bool) -> None:
        """Raises ApiError for a health entry that breaks a rule."""
        if self._storage.is_dry_run:
            validate_status(new, self._rules)
            return
        name, uid = new["metadata"]["name"], new["metadata"]["uid"]
        try:
            validate_status(new, self._rules)
        except ApiError as error:
            self._observe(StatusWritten(name, uid, False, error.message))
            raise
        self._observe(StatusWritten(name, uid, changed))

    def _check_ready(self) -> None:
        if not self._ready.is_set():
            raise refusals.unavailable()

    def _server_fields(self) -> strategies.ServerFields:
        return strategies.ServerFields(str(uuid.uuid4()), timestamp(self._clock.wall()))

    def _stored(self, kind: Kind, name: str, namespace: str | None) -> Object:
        obj = self._storage.get(kind, (checked_namespace(kind, namespace) or "", name))
        if obj is None:
            raise refusals.not_found(kind, name)
        return obj

    def _check_open(self, kind: Kind, namespace: str, name: str) -> None:
        if "deletionTimestamp" in self._stored(NAMESPACES, namespace, None)["metadata"]:
            raise refusals.terminating(kind, name, namespace)

    def _precondition(self, kind: Kind, obj: Object) -> tuple[Object, Object]:
        """The stored object and a copy of the wanted one, if the caller knew the latest revision."""
        self._check_ready()
        check_shape(kind, obj)
        metadata = obj["metadata"]
        old = self._stored(kind, metadata.get("name", ""), namespace_of(kind, obj))
        if metadata.get("uid") not in (None, "", old["metadata"]["uid"]):
            raise refusals.other_object(kind, old, str(metadata["uid"]))
        if metadata.get("resourceVersion") in (None, "", "0") and strategies.needs_revision(kind):
            raise refusals.unconditional(kind, metadata["name"])
        if metadata.get("resourceVersion") not in (None, "", "0", old["metadata"]["resourceVersion"]):
            raise refusals.stale(kind, metadata["name"])
        return old, copied(obj)

    def _gated(self, kind: Kind, new: Object, old: Object | None) -> Object:
        return self._fields.written(new, old) if kind == PODS else new

    def _served(self, kind: Kind, obj: Object) -> Object:
        return fast_copy(self._fields.served(obj) if kind == PODS else obj)

    def _put(self, kind: Kind, new: Object) -> Object:
        """Stores the object; a write without a change is ignored, as in the real API server."""
        old = self._storage.get(kind, key_of(new))
        if self._writer is not None:
            new = self._recorded(kind, old, new, self._writer)
        if kind == CRDS:
            self._serve(old, new)
            new = {**new, "status": _established(new, self.time())}
        if old is not None:
            new = {**new, "metadata": {**new["metadata"], "resourceVersion": old["metadata"]["resourceVersion"]}}
        if old is not None and new == old:
            return old
        stored = self._storage.put(kind, new)
        self._update_budgets(kind, stored)
        return stored

    def _recorded(self, kind: Kind, old: Object | None, new: Object, writer: Writer) -> Object:
        entries = updated_entries(kind, old, new, merged_lists(kind), writer)
        metadata = {key: value for key, value in new["metadata"].items() if key != "managedFields"}
        return {**new, "metadata": {**metadata, "managedFields": entries} if entries else metadata}

    def _update_budgets(self, kind: Kind, changed: Object) -> None:
        """Does what the disruption controller does after a change: computes the status of each budget."""
        namespace = changed["metadata"].get("namespace")
        if kind not in (BUDGETS, PODS, REPLICA_SETS) or not (budgets := self._storage.objects(BUDGETS, namespace)):
            return
        pods, sets = (self._storage.objects(one, namespace) for one in (PODS, REPLICA_SETS))
        scales = {one["metadata"]["uid"]: one["spec"].get("replicas", 1) for one in sets}
        for budget in budgets:
            status = budget_status(budget, pods, scales, self.time())
            if budget.get("status") != status:
                self._storage.put(BUDGETS, {**budget, "status": status})

    def _serve(self, old: Object | None, new: Object) -> None:
        """Serves the kinds of a CustomResourceDefinition, in place of those that it had before."""
        if self._storage.is_dry_run:
            return
        kinds = custom_kinds(new)
        if old is not None:
            self.kinds.remove([kind for kind in custom_kinds(old) if kind not in kinds])
        self.kinds.add(kinds, new["spec"]["names"])

    def _settle(self, kind: Kind, new: Object) -> Object:
        """Stores the object, or removes it if its deletion is due."""
        if kind != NAMESPACES and deletion.is_due(new):
            if self._writer is not None:
                new = self._recorded(kind, self._storage.get(kind, key_of(new)), new, self._writer)
            self._remove(kind, new)
            return new
        stored = self._put(kind, new)
        if kind == NAMESPACES:
            self._finish(new["metadata"]["name"])
        return stored

    def _delete(self, kind: Kind, obj: Object, options: DeleteOptions) -> Deletion:
        """Marks the object for deletion, or removes it; watchers of Pods see the mark before the removal."""
        deleted = deletion.marked_for_deletion(kind, obj, options, self._clock.wall())
        if deleted.pending:
            return deleted
        new = deleted.object
        if deleted.waits or kind == PODS:
            new = self._put(kind, new)
        if kind == NAMESPACES:
            self._empty(new["metadata"]["name"])
            self._collect(kind, new)
        elif deleted.removed:
            new = self._remove(kind, new)
        else:
            self._collect(kind, new)
        return replace(deleted, object=new)

    def _collect(self, kind: Kind, owner: Object) -> None:
        """Does what the garbage collector does for an object with its finalizer: deletes or orphans its dependents."""
        policy = collection.policy_of(owner)
        if policy is None or self._storage.is_dry_run:
            return
        for dependent_kind, dependent in self._storage.dependents(owner):
            if policy == "Orphan" or self._has_other_owner(dependent, owner):
                self._settle(dependent_kind, collection.without_owner(dependent, owner))
            else:
                self._delete(dependent_kind, dependent, DeleteOptions(propagation=policy))
        left = [obj for _, obj in self._storage.dependents(owner) if collection.blocks(obj, owner)]
        found = self._storage.get(kind, key_of(owner))
        if found is not None and not left:
            self._settle(kind, collection.without_finalizer(found))

    def _collect_dependents(self, owner: Object) -> None:
        """Does what the garbage collector does after the removal of an owner: deletes its dependents.

        A dependent with another owner only loses its reference.
        """
        if self._storage.is_dry_run:
            return
        for kind, dependent in self._storage.dependents(owner):
            if self._has_other_owner(dependent, owner):
                self._settle(kind, collection.without_owner(dependent, owner))
            elif "deletionTimestamp" not in dependent["metadata"]:
                self._delete(kind, dependent, DeleteOptions())

    def _has_other_owner(self, dependent: Object, owner: Object) -> bool:
        """Whether another owner keeps the object: it exists, and does not wait for its dependents."""
        others = collection.without_owner(dependent, owner)["metadata"].get("ownerReferences") or ()
        return any(self._keeps(reference, dependent) for reference in others)

    def _keeps(self, reference: Object, dependent: Object) -> bool:
        if self._kind_of_owner(reference) is None:
            return True
        found = self._owner(reference, dependent)
        if found is None or found[1]["metadata"]["uid"] != reference.get("uid"):
            return False
        return collection.policy_of(found[1]) != "Foreground"

    def _remove(self, kind: Kind, obj: Object) -> Object:
        """The last state of the removed object."""
        last = self._storage.remove(kind, obj)
        self._update_budgets(kind, obj)
        self._finish(obj["metadata"].get("namespace"))
        for reference in obj["metadata"].get("ownerReferences") or ():
            if reference.get("blockOwnerDeletion") and (found := self._owner(reference, obj)) is not None:
                self._collect(*found)
        self._collect_dependents(obj)
        if kind == CRDS:
            self._remove_kinds(custom_kinds(obj))
        return last

    def _owner(self, reference: Object, dependent: Object) -> tuple[Kind, Object] | None:
        """The stored object that has the kind and the name of an owner."""
        if (kind := self._kind_of_owner(reference)) is None:
            return None
        namespace = dependent["metadata"].get("namespace", "") if kind.namespaced else ""
        owner = self._storage.get(kind, (namespace, str(reference.get("name"))))
        return None if owner is None else (kind, owner)

    def _kind_of_owner(self, reference: Object) -> Kind | None:
        """The kind of an owner; None for a kind that is not served."""
        return next((one.stored for one in self.kinds if one.kind.kind == reference.get("kind")), None)

    def _remove_kinds(self, kinds: Sequence[Kind]) -> None:
        """Serves these kinds no longer, and deletes their objects."""
        if self._storage.is_dry_run:
            return
        self.kinds.remove(kinds)
        for kind in kinds:
            for obj in self._storage.objects(kind):
                self._delete(kind, obj, DeleteOptions())

    def _expire_events(self) -> None:
        wall = self._clock.wall()
        for event in self._storage.objects(EVENTS):
            if deletion.is_expired(event, wall):
                self._storage.remove(EVENTS, event)

    def _empty(self, namespace: str) -> None:
        for kind in self.kinds.namespaced:
            for obj in self._storage.objects(kind, namespace):
                self._delete(kind, obj, DeleteOptions())
        self._finish(namespace)

    def _finish(self, namespace: str | None) -> None:
        """Removes a namespace that is being deleted, when it is empty."""
        obj = self._storage.get(NAMESPACES, ("", namespace or ""))
        if obj is None or not deletion.is_due(obj):
            return
        if not any(self._storage.objects(kind, namespace) for kind in self.kinds.namespaced):
            self._storage.remove(NAMESPACES, obj)


def _established(definition: Object, time: str) -> Object:
    """The status of a CustomResourceDefinition whose kinds are served."""
    if found := definition.get("status"):
        return {**found}
    conditions = [
        {"type": name, "status": "True", "lastTransitionTime": time, "reason": reason, "message": ""}
        for name, reason in (("NamesAccepted", "NoConflicts"), ("Established", "InitialNamesAccepted"))
    ]
    stored = [one["name"] for one in definition["spec"]["versions"] if one.get("storage")]
    return {"conditions": conditions, "acceptedNames": definition["spec"]["names"], "storedVersions": stored}


def _revision(since: str | None) -> int | None:
    if since is not None and not since.isdecimal():
        raise refusals.bad_request(f"resourceVersion must be a number, got {since!r}")
    return None if since is None else int(since)
