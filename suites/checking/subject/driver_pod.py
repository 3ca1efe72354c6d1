"""A driver in a Pod of a cluster, as a process: it is created with its workload, and ends when that is deleted."""

import asyncio
import signal
from collections.abc import Callable, Coroutine, Mapping
from contextlib import aclosing, suppress
from typing import Any

from drahealth.fakes.cluster.api import PODS, ApiError, Kind, Object
from drahealth.fakes.cluster.clients.kube_client import KubeClient
from drahealth.fakes.cluster.clients.mirror import Mirror
from drahealth.fakes.waiting import Changes
from drahealth.proto.clock import Clock
from drahealth.suites.checking.kubelet.waiting import within
from drahealth.suites.checking.output_text import output_text
from drahealth.suites.checking.subject.kept_output import OUTPUT_LINES, KeptOutput
from drahealth.suites.checking.subject.leftovers import until_gone
from drahealth.suites.checking.subject.workload import (
    PROCESS_LABEL,
    RUN_LABEL,
    InCluster,
    is_hopeless,
    is_ready,
    namespace_of,
    pinned,
    why_not_ready,
)
from drahealth.suites.errors import ConfigurationError, HarnessError

KILLED = 128 + signal.SIGKILL
"""Exit code of a container that the kubelet or the kernel killed."""
_END_LIMIT = 60.0
"""Seconds beyond its grace until a deleted Pod must be gone."""
_RETRY = 0.5
_NOT_FOUND = 404


class DriverPod:
    """One workload with a Pod, from `start` to `close`."""

    pid = 0
    """The process is not one of this machine."""

    def __init__(self, api: KubeClient, declared: InCluster, kind: Kind, workload: Object, clock: Clock) -> None:
        self._api = api
        self._declared = declared
        self._kind = kind
        self._workload = workload
        self._clock = clock
        self._changes = Changes()
        labels = workload["metadata"]["labels"]
        selector = ",".join(f"{name}={labels[name]}" for name in (RUN_LABEL, PROCESS_LABEL))
        self._pods = Mirror(api.selecting(labels=selector), [PODS], self._changed)
        self._exit: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._restarts: dict[str, int] | None = None
        """The restarts of each container until the Pod was Ready; None before."""
        self._kept = KeptOutput()
        self.output_bytes = 0
        """The size of its log so far."""
        self._closing: asyncio.Task[int] | None = None
        self._tasks: list[asyncio.Task[None]] = []

    @classmethod
    async def start(
        cls, api: KubeClient, declared: InCluster, workload: Mapping[str, Any], labels: Mapping[str, str], clock: Clock
    ) -> "DriverPod":
        """Creates a workload with one Pod on the node, and waits until the Pod is Ready.

        Raises ConfigurationError if the API server rejects it, or if the Pod does not become Ready.
        """
        made = pinned(workload, declared.node, labels)
        try:
            kind = await api.kind_of(made)
            made = await api.create(kind, made)
        except ApiError as error:
            hint = "correct the manifest"
            if error.reason == "AlreadyExists":
                hint = "delete it: drahealth ends only what it created"
            raise ConfigurationError(f"the API server rejects {declared.name}: {error}", hint) from None
        found = cls(api, declared, kind, made, clock)
        try:
            found._begin(found._pods.run())
            await found._become_ready()
        except BaseException:
            await found.close()
            raise
        return found

    @property
    def running(self) -> bool:
        """Whether its container has not ended."""
        return not self._exit.done()

    async def signal(self, number: signal.Signals) -> None:
        """SIGTERM deletes the workload; returns when its Pod is being deleted. SIGKILL ends the grace of the Pod."""
        if number is signal.SIGTERM:
            await self._delete_workload()
            await self._within(_END_LIMIT, lambda: all(map(_is_ending, self._pods.objects(PODS))))
            return
        for one in self._pods.objects(PODS):
            with suppress(ApiError):  # it is gone
                await self._api.delete(PODS, one["metadata"]["name"], one["metadata"]["namespace"], grace=1)

    async def exited(self) -> tuple[int, int]:
        """Waits for the end of its container, or of the Pod. Returns the exit code, and no number of children."""
        return await asyncio.shield(self._exit), 0

    def output(self) -> tuple[str, ...]:
        """The first and the last lines of its log."""
        return self._kept.texts()

    async def close(self) -> int:
        """Deletes the workload, and waits until its Pods are gone. Returns no number of children.

        Raises HarnessError if they are not gone in time.
        """
        if self._closing is None:
            self._closing = asyncio.create_task(self._close())
        return await asyncio.shield(self._closing)

    async def _close(self) -> int:
        try:
            await self._delete_workload()
            if not await self._within(self._declared.grace + _END_LIMIT, self._is_gone):
                names = ", ".join(one["metadata"]["name"] for one in self._pods.objects(PODS))
                what = f"Pod {names} of {self._declared.name} is not deleted"
                raise HarnessError(what, "look at its status; drahealth can remove it in the next run")
            await until_gone(self._api, self._kind, self._workload)
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            self._tasks.clear()
            if not self._exit.done():
                self._exit.set_result(-signal.SIGKILL)
        return 0

    async def _become_ready(self) -> None:
        def is_decided() -> bool:
            return self._pods.whole.is_set() and any(is_ready(one) or is_hopeless(one) for one in self._listed())

        await self._within(self._declared.limit, is_decided)
        pod = next(iter(self._listed()), None)
        if pod is None or not is_ready(pod):
            where = f"no Pod of {self._declared.name} is Ready on node {self._declared.node}"
            hint = "correct the manifest, load the image into the cluster, or raise limit of [driver] cluster"
            said = await self._last_lines(pod) if pod else ()
            raise ConfigurationError(f"{where}: {why_not_ready(pod)}{output_text(said)}", hint)
        self._restarts = {one["name"]: one.get("restartCount", 0) for one in _statuses(pod)}
        self._begin(self._read_log(pod["metadata"]["name"]))

    def _listed(self) -> list[Object]:
        return [one for one in self._pods.objects(PODS) if not _is_ending(one)]

    def _is_gone(self) -> bool:
        return self._pods.whole.is_set() and not self._pods.objects(PODS)

    async def _within(self, limit: float, condition: Callable[[], bool]) -> bool:
        try:
            await within(self._clock, limit, self._changes.until(condition))
        except TimeoutError:
            return False
        return True

    async def _delete_workload(self) -> None:
        """Deletes it; its controller deletes the Pods. Without an effect if it is gone. Raises HarnessError."""
        metadata = self._workload["metadata"]
        path = self._kind.path(metadata["namespace"], metadata["name"])
        try:
            await self._api.connection.call("DELETE", path, body={"propagationPolicy": "Foreground"})
        except ApiError as error:
            if error.status != _NOT_FOUND:
                raise HarnessError(f"cannot delete {self._declared.name}: {error}", "delete it") from None

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        self._tasks.append(asyncio.create_task(work))

    def _changed(self, kind: Kind, old: Object | None, new: Object | None) -> None:
        pod = new or old
        assert pod
        if self._restarts is not None and not self._exit.done():
            code = self._exit_code(pod)
            if code is None and new is None:
                code = -signal.SIGKILL
            if code is not None:
                self._exit.set_result(code)
        self._changes.notify()

    def _exit_code(self, pod: Object) -> int | None:
        """The exit code of a container that has ended since the Pod was Ready; None without one."""
        assert self._restarts is not None
        for one in _statuses(pod):
            states = [(one.get("state") or {}).get("terminated")]
            if one.get("restartCount", 0) > self._restarts.get(one["name"], 0):
                states.append((one.get("lastState") or {}).get("terminated"))
            if ended := next(filter(None, states), None):
                return int(ended.get("exitCode", 0))
        return None

    async def _last_lines(self, pod: Object) -> tuple[str, ...]:
        """The output of a Pod that is not Ready; empty if its container did not start."""
        await self._add_lines(pod["metadata"]["name"], {"tailLines": str(OUTPUT_LINES)})
        return self.output()

    async def _read_log(self, name: str) -> None:
        """Reads the log until its end."""
        await self._add_lines(name, {"follow": "true"})

    async def _add_lines(self, name: str, query: Mapping[str, str]) -> None:
        container = {"container": self._declared.container} if self._declared.container else {}
        path = f"{PODS.path(namespace_of(self._workload), name)}/log"
        with suppress(ApiError):  # there is no log, or the user cannot read it
            async with aclosing(self._api.connection.text_lines(path, {**query, **container})) as lines:
                async for line in lines:
                    self.output_bytes += len(line)
                    self._kept.add([line.rstrip(b"\n")])


def _is_ending(pod: Object) -> bool:
    return "deletionTimestamp" in pod["metadata"]


def _statuses(pod: Object) -> list[Object]:
    return list((pod.get("status") or {}).get("containerStatuses") or ())
