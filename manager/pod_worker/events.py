"""Records events of a node's pods (core/v1 `Event`), in order and in the background."""

import asyncio
import logging

from drahealth.fakes.cluster.api import EVENTS, Api, ApiError, Object, timestamp
from drahealth.fakes.waiting import Retry
from drahealth.manager.pod_worker.event_series import EventSeries, EventWrite
from drahealth.manager.pod_worker.pod_status import PodEvent
from drahealth.proto.clock import Clock

log = logging.getLogger(__name__)

COMPONENT = "kubelet"
MAX_QUEUED = 1000
"""Maximum number of queued events; further ones are lost, as in a kubelet."""
_TRIES = 12
"""Attempts to write one event while the API server is unavailable."""


class EventRecorder:
    """`record` queues an event, without blocking or errors; `run` writes the events."""

    def __init__(self, api: Api, clock: Clock, node_name: str) -> None:
        self._api = api
        self._clock = clock
        self._node_name = node_name
        self._series = EventSeries()
        self._queue: asyncio.Queue[Object] = asyncio.Queue(MAX_QUEUED)

    def record(self, pod: Object, event: PodEvent) -> None:
        """Records an event of the pod, with the current time."""
        now = self._clock.wall()
        written = self._series.add(pod["metadata"]["uid"], event, now)
        if written is None:
            return
        try:
            self._queue.put_nowait(self._object(pod, written, now))
        except asyncio.QueueFull:
            log.warning("event lost, because %d events are queued: %s", MAX_QUEUED, event.message)

    async def run(self) -> None:
        """Writes recorded events until cancelled."""
        while True:
            event = await self._queue.get()
            try:
                await self._write_with_retries(event)
            except ApiError as error:
                log.warning("failed to write an event of pod %s: %s", event["involvedObject"]["name"], error)

    async def _write_with_retries(self, event: Object) -> None:
        retry = Retry()
        for left in reversed(range(_TRIES)):
            try:
                await self._write(event)
            except ApiError as error:
                if error.status != 503 or not left:
                    raise
                await self._clock.sleep(retry.next())
            else:
                return

    async def _write(self, event: Object) -> None:
        if event["count"] > 1:
            try:
                await self._api.replace(EVENTS, event)
                return
            except ApiError as error:
                if error.status != 404:  # events expire in the API server
                    raise
        await self._api.create(EVENTS, event)

    def _object(self, pod: Object, written: EventWrite, now: float) -> Object:
        metadata = pod["metadata"]
        name = f"{metadata['name']}.{int(written.first * 1e9) + written.number:x}"
        return {
            "apiVersion": EVENTS.api_version,
            "kind": EVENTS.kind,
            "metadata": {"name": name, "namespace": metadata["namespace"]},
            "involvedObject": {
                "apiVersion": "v1",
                "kind": "Pod",
                "namespace": metadata["namespace"],
                "name": metadata["name"],
                "uid": metadata["uid"],
                "resourceVersion": metadata["resourceVersion"],
            },
            "type": written.event.type,
            "reason": written.event.reason,
            "message": written.event.message,
            "count": written.count,
            "firstTimestamp": timestamp(written.first),
            "lastTimestamp": timestamp(now),
            "source": {"component": COMPONENT, "host": self._node_name},
            "reportingComponent": COMPONENT,
            "reportingInstance": self._node_name,
        }
