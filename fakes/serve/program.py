"""The process that serves the drivers and device plugins of a file, and their changes.

Each starts only if no other process serves its sockets. A lock on a directory orders two processes that start at the
same time. The lock ends with its process.
"""

import asyncio
import fcntl
import glob
import logging
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, AsyncExitStack, asynccontextmanager, closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from drahealth.fakes.cluster.api import DEVICE_CLASSES, NAMESPACES, ApiError, ListWatch
from drahealth.fakes.cluster.kube_client import client_of
from drahealth.fakes.control.commands import Start
from drahealth.fakes.control.definition import handles
from drahealth.fakes.control.fake_options import DriverOptions, PluginOptions
from drahealth.fakes.control.news import News
from drahealth.fakes.control.server import ControlServer, Served, ServedDrivers
from drahealth.fakes.control.socket_path import listen, make_way
from drahealth.fakes.control.wire import LINE_LIMIT
from drahealth.fakes.hardware.device_plugin import FakeDevicePlugin
from drahealth.fakes.hardware.devices import DRIVER
from drahealth.fakes.hardware.driver import FakeDriver
from drahealth.fakes.hardware.driver_instance import DriverInstance
from drahealth.fakes.hardware.instances import UPGRADE
from drahealth.fakes.kubelet_plugin.interface import hidden
from drahealth.fakes.program.errors import CommandError
from drahealth.fakes.program.json_lines import LineWriter
from drahealth.fakes.program.log import log_to
from drahealth.fakes.program.private_files import BearerToken, TokenFileError
from drahealth.fakes.serve.playing import play_on
from drahealth.fakes.serve.pods import PREFIX, NodePods, PodAnnotations, PodObserver, looks_at_pods
from drahealth.fakes.serve.settings import KUBELET, Settings
from drahealth.fakes.waiting import poll
from drahealth.proto.clock import SystemClock
from drahealth.proto.events import (
    DriverEnding,
    DriverEvent,
    DriverRetired,
    DriverServed,
    DriverStarted,
    Observe,
    Prepared,
    Unprepared,
    to_json,
)
from drahealth.proto.sockets import SocketInUse, is_served

PATIENCE = 60.0
"""Seconds that another process may take to start: an API server that does not answer costs it 30."""
_LOCK_INTERVAL = 0.1


@asynccontextmanager
async def _reserve(who: str, folder: Path, sockets: Iterable[Path]) -> AsyncIterator[None]:
    """Inside it, no other process starts with these sockets. Raises SocketInUse if one serves them, OSError."""
    held = _opened(folder)
    try:
        await _lock(held, folder)
        _check(who, sockets)
        yield
    finally:
        os.close(held)


def _check(who: str, sockets: Iterable[Path]) -> None:
    for path in sockets:
        if is_served(path):
            raise SocketInUse(
                f"{who} is already served at {path}; end that process, or pass another --kubelet-dir; for a rolling "
                "update, pass --instance"
            )


def _opened(folder: Path) -> int:
    folder.mkdir(parents=True, exist_ok=True)
    return os.open(folder, os.O_RDONLY | os.O_DIRECTORY)


async def _lock(held: int, folder: Path) -> None:
    def is_locked() -> bool:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    if not await poll(is_locked, _LOCK_INTERVAL, PATIENCE):
        raise SocketInUse(
            f"another process has held the lock of {folder} for more than {PATIENCE:g} s; end that process"
        )


class ExclusiveDriver(FakeDriver):
    """A driver whose every start raises SocketInUse if another process serves its sockets.

    A start removes the sockets of upgraded instances whose process was killed.
    """

    def check_sockets(self) -> None:
        """Raises SocketInUse if another process serves its sockets now."""
        _check(f"driver {self.options.name}", [*self.sockets, *_upgrades(self.options)])

    async def _begin(self, instance: DriverInstance) -> None:
        o = instance.options
        upgraded = [] if UPGRADE in o.instance else _upgrades(o)
        async with _reserve(f"driver {o.name}", Path(o.registry_dir), [*instance.sockets, *upgraded]):
            for path in upgraded:
                _clear(path, o)
            await super()._begin(instance)


def _upgrades(options: DriverOptions) -> list[Path]:
    """The sockets of upgraded instances of the driver in other processes, running or killed.

    They are in the driver's folder, and their names begin like those of its own sockets.
    """
    first = f"dra-{options.instance}-{UPGRADE}".replace("--", "-")
    found = Path(options.data_dir).glob(f"{glob.escape(first)}*.sock")
    return sorted(path for path in found if path.is_socket())


def _clear(path: Path, options: DriverOptions) -> None:
    """Removes the sockets of a killed instance."""
    name = path.stem.removeprefix("dra-")
    for left in (path, Path(options.registry_dir, f"{options.name}-{name}-reg.sock")):
        left.unlink(missing_ok=True)
        hidden(left).unlink(missing_ok=True)


class ExclusivePlugin(FakeDevicePlugin):
    """A device plugin whose every start raises SocketInUse if another process serves its sockets."""

    def check_sockets(self) -> None:
        """Raises SocketInUse if another process serves its sockets now."""
        _check(f"device plugin {self.options.resource}", self.sockets)

    @handles(Start)
    async def _start(self, command: Start) -> None:
        if not (await self.state()).running:
            o = self.options
            async with _reserve(f"device plugin {o.resource}", Path(o.plugins_dir), self.sockets):
                await super()._start(command)


# Drivers that clients add to a running process. Each lives as long as a namespace, so nobody needs to remember it.

_EVERY = 2.0
"""Seconds between looks at a namespace."""

Make = Callable[[DriverOptions, Observe], FakeDriver]


class NamespaceDrivers:
    """All of a process. They are served beside the drivers of the inventory file, which stay the default of clients."""

    def __init__(self, make: Make, api: ListWatch, served: ServedDrivers) -> None:
        self._make = make
        self._api = api
        self._served = served
        self._drivers: dict[str, FakeDriver] = {}
        self._watching: dict[str, asyncio.Task[None]] = {}

    async def add(self, options: DriverOptions, namespace: str) -> None:
        """Starts a driver with its DeviceClass. It ends by `end`, or when the namespace is deleted.

        Raises ApiError if there is no such namespace, ValueError for the name of another driver.
        """
        if options.name in {driver.name for driver in self._served.all()}:
            raise ValueError(f"there is already a driver {options.name}")
        uid = (await self._api.get(NAMESPACES, namespace))["metadata"]["uid"]
        driver = self._make(options, self._served.news.observer())
        self._drivers[options.name] = driver
        self._served.add(Served.driver(options, driver))
        try:
            await driver.start()
            await self._api.create(DEVICE_CLASSES, _device_class(options.name))
        except BaseException:
            await self.end(options.name)
            raise
        self._watching[options.name] = asyncio.create_task(self._follow(options.name, namespace, uid))

    async def end(self, name: str) -> None:
        """Retires the driver, and deletes its DeviceClass. Raises ValueError for a driver that was not added."""
        driver = self._drivers.pop(name, None)
        if driver is None:
            raise ValueError(f"no client has added a driver {name}")
        if watching := self._watching.pop(name, None):
            watching.cancel()
        self._served.remove(name)
        with suppress(ApiError):
            await self._api.delete(DEVICE_CLASSES, name)
        with suppress(ApiError):
            await driver.retire()

    async def close(self) -> None:
        """Ends all of them."""
        await asyncio.gather(*(self.end(name) for name in list(self._drivers)))

    async def _follow(self, name: str, namespace: str, uid: str) -> None:
        while await self._exists(namespace, uid):  # noqa: ASYNC110 -- a poll of the API server
            await asyncio.sleep(_EVERY)
        self._watching.pop(name)  # `end` cancels it, and this is it
        await self.end(name)

    async def _exists(self, namespace: str, uid: str) -> bool:
        try:
            found: str = (await self._api.get(NAMESPACES, namespace))["metadata"]["uid"]
        except ApiError as error:
            return error.status != 404  # any other error says nothing about the namespace
        return found == uid


def _device_class(driver: str) -> dict[str, object]:
    """A DeviceClass with the name of the driver, and all of its devices."""
    return {
        "apiVersion": DEVICE_CLASSES.api_version,
        "kind": DEVICE_CLASSES.kind,
        "metadata": {"name": driver},
        "spec": {"selectors": [{"cel": {"expression": f'device.driver == "{driver}"'}}]},
    }


# The process that serves the drivers and device plugins of a file, and their control socket, until SIGTERM or SIGINT.
#
# Drivers start in order. Sockets of a running process are not touched, those of an ended one are replaced. At the end
# the drivers delete their published objects and sockets.

RETIREMENT = 8.0
"""Seconds that a driver has to withdraw what it published; a pod has thirty to end."""
_LINGER = 120.0
_END = 1.0
"""Seconds that running commands have to end before the next signal."""

log = logging.getLogger(__name__)


class Program:
    """The whole program, in one event loop. Device plugins need no API server; `api` and `pods` are for drivers."""

    def __init__(self, settings: Settings, api: ListWatch | None, news: News, pods: ListWatch | None = None) -> None:
        self._settings = settings
        self._api = api
        self.news = news
        self.drivers = [self._make(each, news.observer()) for each in settings.drivers]
        self.plugins = [self._make_plugin(each, news.observer()) for each in settings.plugins]
        looked_at = pods and (settings.annotations or looks_at_pods(settings.stories))
        self._pods = NodePods(pods) if pods and looked_at else None
        self._annotations = self._following(self._pods) if self._pods and settings.annotations else None
        self._pod_observer = PodObserver(self._pods)
        if settings.stories:
            news.add(self._pod_observer)
        served = (Served.driver(driver.options, driver) for driver in self.drivers)
        plugged = (Served.plugin(plugin.options, plugin) for plugin in self.plugins)
        self.served = ServedDrivers((*served, *plugged), news)
        self._added = NamespaceDrivers(self._make, api, self.served) if api else None

    async def run(self, stop: asyncio.Event) -> None:
        """Runs until `stop` is set, and stops in order. Raises CommandError if it cannot start."""
        path = self._settings.socket
        with _explained(path):
            make_way(path)
        async with AsyncExitStack() as stack:
            await _until(stop, self._work(stack, path))
            self._publish_each(DriverEnding)

    async def _work(self, stack: AsyncExitStack, path: Path) -> None:
        """Starts all drivers and runs all parts until cancelled. If one driver cannot start, none does."""
        with _explained(path):
            for driver in self.drivers:
                driver.check_sockets()
            for plugin in self.plugins:
                plugin.check_sockets()
        for driver in self.drivers:
            await self._start(driver)
            stack.push_async_callback(self._retire, driver)
        for plugin in self.plugins:
            await self._start_plugin(plugin)
            stack.push_async_callback(self._retire_plugin, plugin)
        with _explained(path):
            listening = listen(path)
        if self._added:
            stack.push_async_callback(self._added.close)
        server = ControlServer(
            self._make, make_plugin=self._make_plugin, linger=_LINGER, served=self.served, added=self._added
        )
        stack.push_async_callback(server.close)
        serving = await asyncio.start_unix_server(server.serve, sock=listening, limit=LINE_LIMIT)
        stack.callback(_remove, path)
        stack.callback(serving.close)
        metrics = await self._serve_metrics(stack)
        self._publish_each(lambda name: DriverServed(name, str(path), metrics))
        parts = [asyncio.create_task(part) for part in self._parts()]
        try:
            await asyncio.gather(*parts)
        finally:
            await _end(parts)

    def _parts(self) -> Iterator[Coroutine[Any, Any, object]]:
        """The parts that run beside the drivers, without end."""
        yield asyncio.Event().wait()
        if self._pods:
            yield self._pods.run()
        if self._annotations:
            yield self._annotations.run()
        if stories := self._settings.stories:
            plugin = self.plugins[0] if self.plugins else None  # a story that has one has been loaded for the only one
            yield play_on(self.drivers[0], stories, self.news.publish, self._pod_observer, plugin, self._settings.speed)

    async def _serve_metrics(self, stack: AsyncExitStack) -> str:
        if self._settings.metrics is None:
            return ""
        from drahealth.fakes.serve.metrics import Metrics  # only here: it brings the Prometheus client

        address, port = self._settings.metrics
        token = self._metrics_token()
        metrics = Metrics(self.drivers, self.plugins)
        stack.callback(self.news.add(metrics))
        try:
            server = await metrics.serve(address, port, token)
        except OSError as error:
            raise CommandError(
                f"metrics cannot be served on {address}, port {port}: {error.strerror}; choose another --metrics-port",
                3,
            ) from None
        stack.push_async_callback(server.stop)
        return server.url

    def _metrics_token(self) -> BearerToken | None:
        path = self._settings.metrics_token
        try:
            return BearerToken.kept_in(path) if path else None
        except TokenFileError as error:
            raise CommandError(str(error)) from None
        except OSError as error:
            raise CommandError(f"{path} cannot be read or written: {error.strerror}", 3) from None

    def _following(self, pods: NodePods) -> PodAnnotations:
        assert self._api
        own = (os.environ.get("POD_NAMESPACE", ""), os.environ.get("POD_NAME", ""))
        prefix = self._settings.annotations or PREFIX
        following = PodAnnotations(pods, self._api, self.drivers, prefix=prefix, own=own if all(own) else None)

        def hear(event: DriverEvent) -> None:
            if isinstance(event, Prepared | Unprepared):
                following.wake()

        self.news.add(hear)
        return following

    def _make(self, options: DriverOptions, observe: Observe) -> ExclusiveDriver:
        if self._api is None:
            raise ValueError("a driver needs an API server; pass --kubeconfig")
        return ExclusiveDriver(options, self._api, observe=observe)

    def _make_plugin(self, options: PluginOptions, observe: Observe) -> ExclusivePlugin:
        return ExclusivePlugin(options, observe=observe)

    async def _start(self, driver: FakeDriver) -> None:
        name = driver.options.name
        with _explained(Path(driver.options.data_dir)):
            try:
                await driver.start()
            except ApiError as error:
                raise CommandError(f"driver {name} cannot publish its devices: {error}", 3) from None
        self.news.publish(DriverStarted(name, driver.options.node, len(driver.options.devices)))

    async def _retire(self, driver: FakeDriver) -> None:
        name = driver.options.name
        try:
            await asyncio.wait_for(driver.retire(), RETIREMENT)
        except (ApiError, TimeoutError) as error:
            why = error if isinstance(error, ApiError) else f"no answer within {RETIREMENT:g} s"
            log.warning("driver %s cannot delete its ResourceSlices: %s", name, why)
        self.news.publish(DriverRetired(name))

    async def _start_plugin(self, plugin: FakeDevicePlugin) -> None:
        with _explained(plugin.endpoint):
            await plugin.start()
        started = DriverStarted(plugin.options.resource, self._settings.node, len(plugin.options.devices))
        self.news.publish(started)

    async def _retire_plugin(self, plugin: FakeDevicePlugin) -> None:
        await plugin.retire()
        self.news.publish(DriverRetired(plugin.options.resource))

    def _publish_each(self, make: Callable[[str], DriverEvent]) -> None:
        for each in self.served.all():
            self.news.publish(make(each.name))


async def _until(stop: asyncio.Event, work: Coroutine[Any, Any, None]) -> None:
    """Runs the work until the event is set. Raises the error of the work."""
    tasks = [asyncio.create_task(work), asyncio.create_task(stop.wait())]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        await _end(tasks)


async def _end(tasks: Iterable["asyncio.Task[Any]"]) -> None:
    """Cancels the tasks and waits for them; a timeline has steps at its end, which may wait."""
    left = set(tasks)
    while left:
        for task in left:
            task.cancel()
        _, left = await asyncio.wait(left, timeout=_END)


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    try:
        yield
    except SocketInUse as taken:
        raise CommandError(str(taken)) from None
    except ValueError as error:
        raise CommandError(str(error)) from None
    except OSError as error:
        where = error.filename or path
        hint = "; run as root, or pass your own directories (see --help)" if isinstance(error, PermissionError) else ""
        raise CommandError(f"{where} cannot be created: {error.strerror}{hint}", 3) from None


def _remove(path: Path) -> None:
    with suppress(SocketInUse):  # somebody has put another in its place
        make_way(path)


Shown = Callable[[Program], AbstractContextManager[None]]
"""Shows somewhere what happens to a program, while it is entered."""


async def serve(settings: Settings, news: News, shown: Shown) -> None:
    """Runs the program in this process until SIGTERM or SIGINT. Raises CommandError."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    needed = settings.drivers or settings.kubeconfig
    api = await client_of(settings.kubeconfig) if needed else None
    try:
        pods = api.selecting(f"spec.nodeName={settings.node}") if api else None
        try:
            program = Program(settings, api, news, pods)
        except ValueError as error:  # such as a path that is too long for a socket
            raise CommandError(str(error)) from None
        with shown(program):
            await program.run(stop)
    finally:
        if api:
            await api.close()


# Runs the program as a command: where its log and its lines go.

_USUAL: Mapping[str, Any] = {
    "kubelet_dir": KUBELET,
    "registry_dir": None,
    "plugins_dir": None,
    "device_plugins_dir": None,
    "cdi_dir": None,
    "node_name": None,
    "driver_name": DRIVER,
    "instance": "",
    "catalogue": "nvidia",
    "policy": "nvidia-catalogue",
    "seed": None,
    "play": None,
    "speed": 1.0,
    "pod_annotations": False,
    "annotation_prefix": PREFIX,
    "metrics_port": None,
    "metrics_address": "127.0.0.1",
    "json": False,
}


def run_standing(file: Path, *, socket: Path | None, kubeconfig: Path | None, given: Mapping[str, Any]) -> None:
    """Until SIGTERM or SIGINT. Raises CommandError."""
    settings = settings_of(file, socket=socket, kubeconfig=kubeconfig, given=given)
    asyncio.run(serve(settings, News(), _shown(settings)))


def _shown(settings: Settings) -> Shown:
    """The live view on a terminal, JSON lines anywhere else."""
    if sys.stdout.isatty() and not settings.json:
        return _on_terminal
    log_to(logging.StreamHandler(sys.stderr))
    return _as_lines


@contextmanager
def _on_terminal(program: Program) -> Iterator[None]:
    from drahealth.fakes.serve.live_view import LiveView

    view = LiveView()
    program.news.add(view)
    with view.shown(program.drivers, program.plugins):
        yield


@contextmanager
def _as_lines(program: Program) -> Iterator[None]:
    lines = LineWriter(sys.stdout, SystemClock())

    def write(event: DriverEvent) -> None:
        lines.write(to_json(event))

    program.news.add(write)
    with closing(lines):
        yield


def settings_of(file: Path, *, socket: Path | None, kubeconfig: Path | None, given: Mapping[str, Any]) -> Settings:
    """The program's, of what is `given` of its options, by their names. Raises CommandError."""
    return Settings.make(file, socket=socket, kubeconfig=kubeconfig, **{**_USUAL, **given})
