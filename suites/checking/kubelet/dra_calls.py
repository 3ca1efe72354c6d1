"""The DRA calls of a kubelet: prepare and unprepare, with the result of each claim."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import grpc
import grpc.aio

from drahealth.manager.calls import PluginCalls, claims_request
from drahealth.manager.plugin import CALL_LIMIT, describe_end
from drahealth.proto.clock import Clock
from drahealth.proto.events import Observe
from drahealth.proto.services import PREPARE, UNPREPARE, MalformedMessage, Unary
from drahealth.proto.values import ClaimRef
from drahealth.suites.checking.kubelet.plugin import Plugin


@dataclass(frozen=True, slots=True)
class Called:
    """The outcome of a call."""

    problem: str = ""
    """Why it failed; empty if it succeeded."""
    timed_out: bool = False
    """Whether it did not end within its limit."""
    errors: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """The error of each claim that has a result, by UID; empty for success."""

    def problem_of(self, claim: ClaimRef) -> str:
        """Why it failed for this claim; empty if it succeeded."""
        return self.problem or self.errors.get(claim.uid, "the answer has no result for this claim")


class DraCalls:
    """Calls one version of the DRA service. A call that fails raises nothing; a cancelled call is an event, too."""

    def __init__(self, channel: grpc.aio.Channel, clock: Clock, observe: Observe, plugin: Plugin, version: str) -> None:
        self._call = PluginCalls(channel, clock, observe, plugin.endpoint, plugin.driver)
        self._version = version

    async def prepare(self, *claims: ClaimRef, limit: float = CALL_LIMIT) -> Called:
        """Prepares claims, within `limit` seconds."""
        return await self._ask(PREPARE[self._version], claims, limit)

    async def unprepare(self, *claims: ClaimRef, limit: float = CALL_LIMIT) -> Called:
        """Unprepares claims, within `limit` seconds."""
        return await self._ask(UNPREPARE[self._version], claims, limit)

    async def _ask(self, method: Unary[Any, Any], claims: tuple[ClaimRef, ...], limit: float) -> Called:
        try:
            response = await self._call(method, claims_request(method, claims), limit)
        except grpc.aio.AioRpcError as error:
            return Called(describe_end(error), timed_out=error.code() is grpc.StatusCode.DEADLINE_EXCEEDED)
        except MalformedMessage as malformed:
            return Called(str(malformed))
        return Called(errors={uid: result.error for uid, result in response.claims.items()})


def preferred_version(plugin: Plugin) -> str | None:
    """The DRA service that a kubelet calls: the first one that the plugin advertises."""
    return next((version for version in plugin.versions if version in PREPARE), None)
