"""The registered plugin instances: which one of a driver is the newest, and whose health stream is open."""

import logging
from collections.abc import Callable

from drahealth.manager.calls import path_text
from drahealth.manager.plugin import Plugin, PluginError
from drahealth.manager.profile import Profile
from drahealth.manager.registration import Candidate, Refused, Socket
from drahealth.proto.clock import Clock
from drahealth.proto.events import Observe, PluginDeregistered, PluginRegistered, ignore
from drahealth.proto.quoting import one_line
from drahealth.proto.services import PREPARE
from drahealth.proto.values import Report

log = logging.getLogger(__name__)


class Plugins:
    """All instances, by driver in the order of their registration.

    During a rolling update a driver has two of them. The newest prepares claims (W-20); the profile says whether it
    alone is watched (KEP-4680, "Kubelet Integration") or all are (B-02). `watching` is off while the gate is off.
    `on_report(driver, report)` and `on_end(driver)` tell of the watched streams.
    """

    def __init__(
        self,
        profile: Profile,
        clock: Clock,
        *,
        watching: bool,
        on_report: Callable[[str, Report], None],
        on_end: Callable[[str], None],
        observe: Observe = ignore,
    ) -> None:
        self._profile = profile
        self._clock = clock
        self._watching = watching
        self._on_report = on_report
        self._on_end = on_end
        self._observe = observe
        self._instances: dict[str, dict[Socket, Plugin]] = {}

    def newest(self, driver: str) -> Plugin:
        """The instance of the driver that was registered last. Raises PluginError if there is none."""
        instances = self._instances.get(driver)
        if not instances:
            raise PluginError(f"no plugin is registered for driver {one_line(driver)}")
        return list(instances.values())[-1]

    def register(self, candidate: Candidate) -> None:
        """Takes an instance and watches it.

        Raises Refused if it speaks no version of the node service, or its endpoint is registered already (W-15).
        """
        if not any(version in PREPARE for version in candidate.versions):
            versions = one_line(str(list(candidate.versions)))
            raise Refused(f"none of its versions {versions} is one of {list(PREPARE)}")
        instances = self._instances.setdefault(candidate.name, {})
        if any(plugin.endpoint == candidate.endpoint for plugin in instances.values()):
            raise Refused(f"driver {one_line(candidate.name)} is registered with endpoint {candidate.endpoint} already")
        older = list(instances.values())
        plugin = instances[candidate.socket] = self._plugin(candidate)
        log.info("plugin %s registered, %s", plugin, "reports health" if plugin.reports_health else "without health")
        self._observe(PluginRegistered(plugin.driver, path_text(plugin.endpoint), plugin.health_api))
        if self._watching:
            self._watch(plugin, older)

    async def deregister(self, socket: Socket) -> None:
        """Lets an instance go, if there is one for the socket; the one before it is watched again."""
        for driver, instances in list(self._instances.items()):
            if socket not in instances:
                continue
            plugin = instances.pop(socket)
            await plugin.close()
            log.info("plugin %s deregistered", plugin)
            self._observe(PluginDeregistered(plugin.driver, path_text(plugin.endpoint)))
            if instances and self._watching:
                self.newest(driver).watch()

    async def close(self) -> None:
        """Ends all streams and connections; nothing is forgotten for it."""
        plugins = [plugin for instances in self._instances.values() for plugin in instances.values()]
        self._instances.clear()
        for plugin in plugins:
            plugin.replaced()
            await plugin.close()

    def _plugin(self, candidate: Candidate) -> Plugin:
        driver = candidate.name
        return Plugin(
            driver,
            candidate.endpoint,
            candidate.versions,
            profile=self._profile,
            clock=self._clock,
            on_report=lambda report: self._on_report(driver, report),
            on_end=lambda: self._on_end(driver),
            observe=self._observe,
        )

    def _watch(self, plugin: Plugin, older: list[Plugin]) -> None:
        if self._profile.watches == "newest":
            for old in older:
                old.replaced()
            if older and not plugin.reports_health:
                self._on_end(plugin.driver)  # nobody says any more how its devices are
        plugin.watch()
