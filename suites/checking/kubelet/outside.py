"""The reference manager for a driver in a sandbox: it finds the sockets that the driver names."""

from dataclasses import replace

from drahealth.manager.device_plugins import DevicePluginManager
from drahealth.manager.dra import DraManager
from drahealth.manager.registration import Candidate
from drahealth.suites.checking.subject.places import Places


def dra_manager(places: Places) -> type[DraManager]:
    """The half of the manager for DRA drivers, which looks for each endpoint where it is outside the sandbox."""

    class Outside(DraManager):
        async def register(self, candidate: Candidate) -> None:
            """Adds a plugin instance. Raises Refused."""
            await super().register(replace(candidate, endpoint=places.outside(candidate.endpoint)))

    return Outside


def device_plugin_manager(places: Places) -> type[DevicePluginManager]:
    """The same for the registration sockets of device plugins."""

    class Outside(DevicePluginManager):
        async def register(self, candidate: Candidate) -> None:
            """Adds a plugin. Raises Refused."""
            await super().register(replace(candidate, endpoint=places.outside(candidate.endpoint)))

    return Outside
