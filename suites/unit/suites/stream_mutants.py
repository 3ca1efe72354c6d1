"""Wrong reference managers. Each has one error in its health streams."""

import asyncio
from collections.abc import Callable
from itertools import count
from pathlib import Path

from drahealth.manager.calls import Context
from drahealth.manager.dra import DraManager
from drahealth.manager.plugin import DraPlugin
from drahealth.manager.registration import Candidate, Socket
from drahealth.manager.stream import Input
from drahealth.proto.values import Health, Report

OnReport = Callable[[Report], None]


class WatchesTheOlder(DraManager):
    """A second instance is not watched."""

    def __init__(self, root: Path, context: Context) -> None:
        super().__init__(root, context)
        self._plugins._watch = lambda plugin, older: None if older else plugin.watch()  # type: ignore[method-assign]


class WatchesOnce(DraManager):
    """A restarted plugin is not watched."""

    def __init__(self, root: Path, context: Context) -> None:
        super().__init__(root, context)
        self._seen: set[str] = set()
        self._plugins._watch = self._watch_once  # type: ignore[method-assign]

    def _watch_once(self, plugin: DraPlugin, older: list[DraPlugin]) -> None:
        if plugin.driver not in self._seen:
            self._seen.add(plugin.driver)
            plugin.watch()


class WatchesTwice(DraManager):
    """Every plugin has two streams. Reports count once both are open, so that no story ends before."""

    def __init__(self, root: Path, context: Context) -> None:
        super().__init__(root, context)
        self._more: list[DraPlugin] = []
        self._plugin = self._plugins._plugin
        self._plugins._plugin = self._two  # type: ignore[method-assign]

    def _two(self, candidate: Candidate) -> DraPlugin:
        pair, heard = [self._plugin(candidate), self._plugin(candidate)], set[DraPlugin]()

        def counted(plugin: DraPlugin, hear: OnReport) -> OnReport:
            def count(report: Report) -> None:
                heard.add(plugin)
                if len(heard) == 2:
                    hear(report)

            return count

        for plugin in pair:
            plugin._on_report = counted(plugin, plugin._on_report)
        self._more.append(pair[0])
        pair[0].watch()
        return pair[1]

    async def close(self) -> None:
        for plugin in self._more:
            await plugin.close()
        await super().close()


class HoldsOn(DraManager):
    """A plugin is watched after its deregistration."""

    async def deregister(self, socket: Socket) -> None:
        pass


class _OtherPlugins(DraManager):
    """The base of managers with wrong plugin handling."""

    def __init__(self, root: Path, context: Context) -> None:
        super().__init__(root, context)
        make = self._plugins._plugin

        def changed(candidate: Candidate) -> DraPlugin:
            plugin = make(candidate)
            self._change(plugin)
            return plugin

        self._plugins._plugin = changed  # type: ignore[method-assign]

    def _change(self, plugin: DraPlugin) -> None:
        raise NotImplementedError


class WatchesEachOnce(_OtherPlugins):
    """A replaced instance is not watched again."""

    def _change(self, plugin: DraPlugin) -> None:
        watch, left = plugin.watch, iter([True])
        plugin.watch = lambda: watch() if next(left, False) else None  # type: ignore[method-assign]


class KeepsOldStreams(_OtherPlugins):
    """A replaced instance is still watched, and its reports are ignored."""

    def _change(self, plugin: DraPlugin) -> None:
        hear = plugin._on_report
        plugin.replaced = lambda: None  # type: ignore[method-assign]
        plugin._on_report = lambda report: hear(report) if self._plugins.newest(plugin.driver) is plugin else None


class ClearsWithAnyInstance(DraManager):
    """The end of any instance clears the health of its driver."""

    def __init__(self, root: Path, context: Context) -> None:
        super().__init__(root, context)
        self._plugin = self._plugins._plugin
        self._plugins._plugin = self._clearing  # type: ignore[method-assign]

    def _clearing(self, candidate: Candidate) -> DraPlugin:
        plugin = self._plugin(candidate)
        close = plugin.close

        async def clear_and_close() -> None:
            self._ended(plugin.driver)
            await close()

        plugin.close = clear_and_close  # type: ignore[method-assign]
        return plugin


class HangsUp(_OtherPlugins):
    """The kubelet ends a health stream at the second report of an unhealthy device, without a cause."""

    def _change(self, plugin: DraPlugin) -> None:
        hear, unhealthy = plugin._on_report, 0

        def hang_up() -> None:
            plugin._handle(Input.ENDED)
            self._subscribers[0](frozenset(pod for claim in self._claims for pod in claim.pods))

        def on_report(report: Report) -> None:
            nonlocal unhealthy
            hear(report)
            unhealthy += any(device.health is Health.UNHEALTHY for device in report)
            if unhealthy == 2:
                asyncio.get_running_loop().call_soon(hang_up)

        plugin._on_report = on_report


class GivesUpAfterAGoodEnd(_OtherPlugins):
    """A stream that ends without an error is not opened again, and its devices keep their health."""

    def _change(self, plugin: DraPlugin) -> None:
        end = plugin._end
        plugin._end = lambda why: None if why == "ended by the plugin" else end(why)  # type: ignore[method-assign]


class GivesUpOnTheUnreachable(_OtherPlugins):
    """A plugin that is unreachable at the second attempt is no longer watched."""

    def _change(self, plugin: DraPlugin) -> None:
        handle, failures = plugin._handle, count(1)

        def give_up(what: Input) -> None:
            if what is not Input.UNREACHABLE or next(failures) < 2:
                handle(what)

        plugin._handle = give_up  # type: ignore[method-assign]


class ClearsTheUnreachable(_OtherPlugins):
    """The second failed connection clears the health of the driver."""

    def _change(self, plugin: DraPlugin) -> None:
        handle, failures = plugin._handle, count(1)

        def clear_first(what: Input) -> None:
            if what is Input.UNREACHABLE and next(failures) == 2:
                self._ended(plugin.driver)
            handle(what)

        plugin._handle = clear_first  # type: ignore[method-assign]
