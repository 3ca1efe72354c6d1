"""One registered plugin instance: its connection, prepare and unprepare, and its health stream.

One connection carries everything (W-21). `stream` has the state table of the stream; this module does the I/O.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import grpc.aio

from drahealth.manager.calls import (
    Context,
    PluginCalls,
    claims_request,
    malformed_received,
    next_stream,
    path_text,
    spawn,
)
from drahealth.manager.connection import ConnectionWatch, reaches
from drahealth.manager.stream import Action, Input, State, advertised_health_api, pick_health_api, step
from drahealth.proto.events import ReportReceived, StreamClosed, StreamOpened, ignore
from drahealth.proto.health_apis import HealthApi
from drahealth.proto.plain_messages import undecoded
from drahealth.proto.quoting import one_line
from drahealth.proto.services import PREPARE, UNPREPARE, MalformedMessage
from drahealth.proto.sockets import target
from drahealth.proto.values import ClaimRef, DeviceId, PreparedDevice, Report

CALL_LIMIT = 45.0
"""Seconds for prepare and unprepare (W-09)."""

CONNECT_LIMIT = 5.0
"""Seconds for the connection of a health stream, if the plugin neither accepts nor refuses it."""

REASON_LIMIT = 500
"""Characters of a plugin's error message that are logged."""

# The manager decides when to try again, so gRPC's own back-off (up to two minutes) only gets in the way.
# Two plugins with the same socket path, one after the other, must not share a connection and its back-off either.
_CHANNEL = [
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.max_reconnect_backoff_ms", 200),
    ("grpc.use_local_subchannel_pool", 1),
]

log = logging.getLogger(__name__)


class PluginError(Exception):
    """A plugin rejected a call or is unreachable; the message names the plugin, the call and the reason."""


class DraPlugin:
    """An instance of a DRA driver, from registration to deregistration.

    Calls `on_report(report)` for each report of its stream, and `on_end()` when an open stream has ended and its
    driver's health must be cleared. Calls `on_connection()` when `connected` has changed.
    """

    def __init__(
        self,
        driver: str,
        endpoint: Path,
        versions: Sequence[str],
        context: Context,
        *,
        on_report: Callable[[Report], None],
        on_end: Callable[[], None],
        on_connection: Callable[[], None],
    ) -> None:
        self.driver = driver
        self.endpoint = endpoint
        self._profile, self._clock, self._observe = context.profile, context.clock, context.observe
        self._on_report = on_report
        self._on_end = on_end
        self._api = next(version for version in versions if version in PREPARE)
        self._advertised = advertised_health_api(versions, self._profile)
        self._methods = pick_health_api(versions, self._profile)
        self._method = 0
        limit = ("grpc.max_receive_message_length", self._profile.largest_report)
        self._channel = grpc.aio.insecure_channel(target(endpoint), options=[*_CHANNEL, limit])
        self._connection = ConnectionWatch(self._channel, str(self), on_connection)
        self._call_plugin = PluginCalls(self._channel, self._clock, self._observe, endpoint, driver)
        self._state = State.OFF
        self._task: asyncio.Task[None] | None = None
        self._last_problem = ""
        self._why = ""
        self._code = ""

    def __str__(self) -> str:
        return f"{one_line(self.driver)} at {one_line(self.endpoint.name)}"

    @property
    def health_api(self) -> str | None:
        """The method that it advertises; None if it advertises no health API of the profile."""
        return self._advertised[0].name if self._advertised else None

    @property
    def is_asked(self) -> bool:
        """Whether the manager attempts a health stream, by the profile."""
        return bool(self._methods)

    @property
    def connected(self) -> bool:
        """Whether its connection is open."""
        return self._connection.connected

    def connect(self) -> None:
        """Opens the connection, and again after each end."""
        self._connection.start()

    def watch(self) -> None:
        """Opens the health stream, and again after each end; no effect for a plugin that is not asked."""
        if self.is_asked and self._state is State.OFF:
            self._handle(Input.WATCH)

    async def attempted(self) -> None:
        """Waits until a running attempt to connect has ended."""
        if self._state is State.CONNECTING and self._task:
            await asyncio.wait([self._task])

    def replaced(self) -> None:
        """Ends the stream without clearing health, because a newer instance is watched."""
        self._handle(Input.REPLACED)

    async def close(self) -> None:
        """Ends the stream and the connection, after deregistration."""
        self._connection.stop()  # before anything that can be cancelled
        task = self._task
        self._handle(Input.GONE)
        if task:
            await asyncio.wait([task])
        await self._channel.close()

    async def prepare(self, claims: Sequence[ClaimRef]) -> dict[str, tuple[PreparedDevice, ...]]:
        """The devices of each claim by its UID, as the driver returned them. Raises PluginError."""
        response = await self._call(PREPARE[self._api], claims, "prepare")
        return {uid: tuple(self._device(d) for d in answer.devices) for uid, answer in response.items()}

    async def unprepare(self, claims: Sequence[ClaimRef]) -> None:
        """Unprepares claims. Raises PluginError."""
        await self._call(UNPREPARE[self._api], claims, "unprepare")

    def _device(self, device: Any) -> PreparedDevice:
        share = device.share_id if "share_id" in device.DESCRIPTOR.fields_by_name and device.share_id else None
        name = DeviceId(self.driver, device.pool_name, device.device_name)
        requests = tuple(device.request_names)
        if self._profile.subrequests == "as their request":
            requests = tuple(dict.fromkeys(request.partition("/")[0] for request in requests))
        return PreparedDevice(name, requests, tuple(device.cdi_device_ids), share)

    async def _call(self, method: Any, claims: Sequence[ClaimRef], what: str) -> Mapping[str, Any]:
        try:
            response = await self._call_plugin(method, claims_request(method, claims), CALL_LIMIT)
        except grpc.aio.AioRpcError as error:
            raise PluginError(f"{self}: {what} failed: {describe_end(error)}") from None
        except MalformedMessage as error:
            raise PluginError(f"{self}: {what} failed: {error}") from None
        answers: Mapping[str, Any] = response.claims
        _check_answers(str(self), what, claims, answers)
        return answers

    def _handle(self, what: Input) -> None:
        was = self._state
        self._state, actions = step(was, what, self._profile)
        for action in actions:
            match action:
                case Action.CONNECT:
                    self._run(self._connect())
                case Action.FIRST_METHOD:
                    self._method = 0
                case Action.NEXT_METHOD:
                    self._method += 1
                case Action.CALL:
                    self._run(self._read())
                case Action.WAIT:
                    self._run(self._wait())
                case Action.CLEAR:
                    self._on_end()
                case Action.HANG_UP:
                    self._run(None)

    def _run(self, work: Any) -> None:
        """Replaces the current task by `work`. The current task can be the caller, at its end."""
        old, self._task = self._task, None
        if old and old is not asyncio.current_task():
            old.cancel()
        if work is not None:
            self._task = spawn(work, f"health stream of {self}")

    async def _connect(self) -> None:
        if await reaches(self._channel, CONNECT_LIMIT):
            self._handle(Input.CONNECTED)
        else:
            self._log_problem("cannot be reached")
            self._handle(Input.UNREACHABLE)

    async def _read(self) -> None:
        health_api = self._methods[self._method]
        stream, endpoint = next_stream(), path_text(self.endpoint)
        self._observe(StreamOpened(self.driver, "", stream, health_api.name, endpoint))
        self._why, self._code = "ended by the manager", "CANCELLED"
        responses = health_api.method.stub(self._channel)(health_api.method.request())
        reported = False
        try:
            async for response in responses:
                reported = True
                self._last_problem = ""
                report = health_api.decode(response)
                if self._observe is not ignore:
                    more = undecoded(health_api, response, report)
                    self._observe(ReportReceived(self.driver, endpoint, stream, responses.size, report, more))
                self._on_report(report)
            self._code = "OK"
            self._end("ended by the plugin")
        except grpc.aio.AioRpcError as error:
            self._code = error.code().name
            self._failed(error, health_api, reported)
        except MalformedMessage as error:
            self._observe(malformed_received(self.driver, self.endpoint, stream, error))
            self._end(str(error))
        except Exception:  # of ours: one report that we cannot take must not be the last one
            log.exception("health stream of plugin %s: a report could not be processed", self)
            self._end("a report could not be processed")
        finally:
            responses.cancel()
            self._observe(StreamClosed(self.driver, "", stream, self._why, endpoint, self._code))

    def _failed(self, error: grpc.aio.AioRpcError, health_api: HealthApi, reported: bool) -> None:
        if error.code() is not grpc.StatusCode.UNIMPLEMENTED:
            self._end(describe_end(error))
        elif health_api is not self._methods[-1] and not reported:
            self._why = "not implemented"
            log.info("plugin %s: %s is not implemented, the next method is called", self, health_api.name)
            self._handle(Input.NO_SUCH_METHOD)
        else:
            self._why = "not implemented"
            log.info("plugin %s: %s is not implemented, its devices read Unknown", self, health_api.name)
            self._handle(Input.UNIMPLEMENTED)

    def _end(self, why: str) -> None:
        self._why = why
        self._log_problem(why)
        self._handle(Input.ENDED)

    async def _wait(self) -> None:
        await self._clock.sleep(self._profile.retry)
        self._handle(Input.RETRY_DUE)

    def _log_problem(self, why: str) -> None:
        """Logs a new problem once as a warning; the same problem again goes to the debug log."""
        level = logging.DEBUG if why == self._last_problem else logging.WARNING
        log.log(level, "health stream of plugin %s: %s; next attempt in %g s", self, why, self._profile.retry)
        self._last_problem = why


def describe_end(error: grpc.aio.AioRpcError) -> str:
    """The end of a call in one line: the code, and the plugin's message."""
    return f"{error.code().name}: {one_line(error.details() or '', REASON_LIMIT)}"


def _check_answers(plugin: str, what: str, claims: Sequence[ClaimRef], answers: Mapping[str, Any]) -> None:
    """Checks that every claim has an answer without an error (W-07)."""
    for claim in claims:
        if claim.uid not in answers:
            raise PluginError(f"{plugin}: {what} returned no result for claim {claim.namespace}/{claim.name}")
        if error := answers[claim.uid].error:
            reason = one_line(error, REASON_LIMIT)
            raise PluginError(f"{plugin}: {what} of claim {claim.namespace}/{claim.name}: {reason}")
