"""Wrong reference managers. Each has one error in the registration of plugins."""

from dataclasses import replace

from drahealth.manager.dra import DraManager
from drahealth.manager.registration import Candidate, Refused, Socket


class AcceptsAnyVersion(DraManager):
    """A plugin without a known version of the node service is registered."""

    async def register(self, candidate: Candidate) -> None:
        await super().register(replace(candidate, versions=(*candidate.versions, "v1.DRAPlugin")))


class KeepsTheUnnotified(DraManager):
    """A plugin that cannot be notified stays registered, and is rejected at the next attempt."""

    async def deregister(self, socket: Socket) -> None:
        if not socket.path.exists():
            await super().deregister(socket)


class NeedsAnEndpoint(DraManager):
    """A plugin without an endpoint is rejected."""

    async def register(self, candidate: Candidate) -> None:
        if candidate.endpoint == candidate.socket.path:
            raise Refused("GetInfo must return an endpoint")
        await super().register(candidate)
