"""KEP-4680, Basic Health Reporting and State Transitions: each change, for several devices, drivers and Pods.

Each scenario does the same twice to a fleet, and again after everything else has happened to it.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace

from drahealth.proto.values import Health
from drahealth.suites.run.scenario import scenario
from drahealth.suites.story.fleet import LASTING, AnyGpu, Fleet, Shown, fleet
from drahealth.suites.story.hardware import DevicePlugin, Driver
from drahealth.suites.story.node import Node

_H, _U, _K = Health.HEALTHY, Health.UNHEALTHY, Health.UNKNOWN
CHANGES = ((_U, "a"), (_U, "b"), (_K, ""), (_H, "c"), (_H, "d"), (_K, "f"), (_K, "g"), (_U, ""), (_H, ""))
"""Each change of health once, with a message after none, none after a message, and a new message at each health."""
MIXED = ((_U, _H, _K, _K, _U, _H), (_H, _K, _U, _H, _K, _U), (_K, _U, _H, _U, _H, _K))
"""Healths of the six devices of the drivers. Each device has each health once, and never that of the next device."""
SPANS = (8, 16, 22), (4.2, 9.5, 17.0, 23.0)
"""Timeouts and looks, in seconds after a report. Before the first look no timeout has passed, before the second look
the first one, and so on. Each half or twice of a timeout has another look before or after it than the timeout.
"""
FIRST_TIMEOUT = 90
"""Seconds. Long enough for a busy kubelet to start all Pods."""
SPANS_OF_A_RESTART = (14, 21, 26), (2.0, 15.0, 22.0, 27.0)
"""The same if the kubelet restarts before the first look, which can take several seconds."""


@scenario("STATUS-01", "STATUS-03", "STATUS-02", "STATUS-13", "STATUS-16", "DP-01", "DP-02")
async def test_each_change_of_each_of_several_devices_shows(node: Node) -> None:
    devices = await fleet(node)
    for when in ("first", "second"):
        await _change(devices, when)
        await _report_alone(devices, when)
    devices.keeps_its_order()


@scenario("PERSIST-01", "PERSIST-04", "DP-07", "STATUS-01", "STATUS-03", "STATUS-13")
async def test_each_of_several_devices_keeps_its_health_over_a_kubelet_restart_and_changes_after_it(node: Node) -> None:
    devices = await fleet(node)
    await _restart(devices, "as it started")
    for driver in devices.drivers:
        await devices.becomes(driver.gpus[0], _U, "alone before a restart")
    await _restart(devices, "with one change")
    for number in range(4):
        if number == 1:
            await _disturb(devices)
        await _mix(devices, number, f"before restart {number}")
        await _restart(devices, f"with changes {number}")
    await _change(devices, "after disturbances")
    await _report_alone(devices, "after disturbances")
    devices.keeps_its_order()


@scenario("STREAM-01", "STREAM-05", "STATUS-02", "DP-10", "DP-07", needs=("restart-kubelet",))
async def test_the_end_of_each_of_several_streams_clears_its_devices(node: Node) -> None:
    devices = await fleet(node)
    await _end_streams(devices, 0)
    await _end_streams(devices, 1)
    await _disturb(devices)
    await _end_streams(devices, 2)


@scenario("TIMEOUT-01", "TIMEOUT-02", "TIMEOUT-03", "TIMEOUT-04")
async def test_each_of_several_devices_expires_and_returns(node: Node) -> None:
    devices = await fleet(node, timeout=FIRST_TIMEOUT)
    await _expire_first(devices)
    await _expire(devices, 0, returns=True)
    await _expire(devices, 1, renews=True, returns=True, alone=True)
    await _expire(devices, 2, lacks_one=True)


@scenario("TIMEOUT-01", "TIMEOUT-02", "TIMEOUT-03", "TIMEOUT-04", "PERSIST-02")
async def test_after_disturbances_each_of_several_devices_still_expires(node: Node) -> None:
    devices = await fleet(node)
    await _disturb(devices)
    await _expire(devices, 0, restarts=True, returns=True, alone=True)
    await _expire(devices, 1, lacks_one=True)
    await _expire(devices, 2, renews=True, lacks_one=True)


@scenario("UPDATE-01", "UPDATE-04", "STATUS-02", "STREAM-02", "STREAM-04", needs=("restart-kubelet",))
async def test_instances_of_each_of_several_drivers_come_and_go(node: Node) -> None:
    devices = await fleet(node)
    await _come_and_go(devices, "first")
    await _come_and_go(devices, "second", newest_last=True)
    await _disturb(devices)
    await _come_and_go(devices, "third")


@scenario("DP-10", "DP-01", "DP-02", needs=("restart-kubelet",))
async def test_the_lists_of_each_of_several_device_plugins_count(node: Node) -> None:
    devices = await fleet(node, "plugins_registry")
    await _list(devices, 0)
    await _list(devices, 1)
    await _disturb(devices)
    await _list(devices, 2)


async def _mix(devices: Fleet, number: int, when: str) -> None:
    """Every device changes: those that become Unknown, and others, with a message; every second listed one to
    Unhealthy.
    """
    changes: dict[AnyGpu, Shown] = {}
    for place, (gpu, health) in enumerate(zip(devices.gpus, MIXED[number % 3], strict=True)):
        has_message = health is _K or (place + number) % 2
        changes[gpu] = (health, f"{gpu} of {gpu.driver} {when}" if has_message else "")
    for place, listed in enumerate(devices.listed):
        changes[listed] = ((_U, _H)[(number + place) % 2], "")
    await devices.become(changes)


async def _change(devices: Fleet, when: str) -> None:
    """Each device changes in each way, one after the other. A device plugin lists only Healthy and Unhealthy.

    The second driver has messages where the first one has none.
    """
    for number, (health, message) in enumerate(CHANGES):
        for gpu in devices.gpus:
            has_message = bool(message) is (gpu.driver is devices.drivers[0])
            text = f"{message or 'e'} of {gpu} of {gpu.driver}, {when}" if has_message else ""
            await devices.becomes(gpu, health, text)
        for listed in devices.listed if number in (0, len(CHANGES) - 1) else ():
            await devices.becomes(listed, health)
    await devices.has_its_entries()


async def _report_alone(devices: Fleet, when: str) -> None:
    """Each device is once alone in a report, and the others keep their health."""
    message = f"alone in a report, {when}"
    beats = [(await driver.control.state()).heartbeat for driver in devices.drivers]
    for driver in devices.drivers:
        await driver.control.set_heartbeat(0)  # a complete report has the health from before
    for place in range(3):
        for driver in devices.drivers:
            alone = driver.gpus[place]
            devices.shown[alone] = (_U, message)
            await driver.control.report([alone.reading(*devices.shown[alone], LASTING)])
            await devices.show([alone])
    await devices.syncs(f"after reports of one device, {when}")
    devices.still_shows()
    for driver, beat in zip(devices.drivers, beats, strict=True):
        await devices.become_alike(driver, _U, message)  # in one complete report: no device changes
        await driver.control.set_heartbeat(beat)


async def _restart(devices: Fleet, state: str) -> None:
    """The kubelet restarts, and the drivers report nothing before they have changes."""
    node = devices.node
    await _restart_in_silence(devices)
    with node.judging("PERSIST-01", "each device shows its health from before the restart"):
        await devices.syncs(f"after a restart {state}")
        devices.still_shows(devices.gpus)
    with node.judging("DP-07", "each device plugin is watched again"):
        await devices.show(devices.listed, "restart")
    with node.judging("PERSIST-04", "each device has its entry"):
        await devices.has_its_entries()
    for driver in devices.drivers:
        await driver.resumes()


async def _restart_in_silence(devices: Fleet) -> None:
    for driver in devices.drivers:
        await driver.is_silenced()
    await _restart_kubelet(devices)


async def _restart_kubelet(devices: Fleet) -> None:
    await devices.node.advance_time(1)  # a kubelet may gather changes before it writes its checkpoint
    await devices.node.kubelet_restarts()
    await devices.node.kubelet_catches_up()
    for driver in (devices.fence, *devices.drivers):
        await driver.is_watched()


async def _disturb(devices: Fleet) -> None:
    """Everything that can change a kubelet: a Pod is deleted, devices expire, streams and lists end, drivers and
    device plugins register again, and the kubelet restarts.
    """
    node = devices.node
    own = await node.claim(devices.fence)
    gone = await node.running_pod(own["gpu"])
    [free] = await node.allocated(own)
    await gone.is_deleted()
    await gone.is_gone()
    await free.becomes(_U, "of a deleted Pod", LASTING)
    expired = [driver.gpus[1] for driver in devices.drivers]
    await devices.become(dict.fromkeys(expired, (_U, "the last report")), timeout=3)
    for driver in devices.drivers:
        await driver.is_silenced()
    await node.advance_time(3.1)
    await devices.syncs("after the timeout")
    for driver in devices.drivers:
        await driver.resumes()
    await devices.become(dict.fromkeys(devices.gpus, (_H, "back")))
    for driver in devices.drivers:
        await driver.restarts()
        await driver.is_watched()
        await devices.show(driver.gpus, "restart")
    for plugin in devices.plugins:
        await plugin.list_ends()
    await _register_again(devices, devices.shown)
    await _restart_kubelet(devices)
    await devices.show(devices.listed, "restart")
    await devices.has_its_entries()


async def _end_streams(devices: Fleet, number: int) -> None:
    """The health stream of one driver ends, then that of the other one, and the lists of the device plugins."""
    node, code = devices.node, ("OK", "UNAVAILABLE", "INTERNAL")[number]
    await _mix(devices, number, f"before the end with {code}")
    for driver in devices.drivers:
        await driver.is_silenced()
        await driver.stream_ends(code)
        devices.shown |= dict.fromkeys(driver.gpus, (_K, ""))
        with node.judging("STREAM-01", "the devices of the ended stream show Unknown, and no others"):
            await devices.show(driver.gpus, "resync")
    await node.advance_time(6)
    for driver in devices.drivers:
        await driver.has_new_stream()
        await driver.resumes()
        for health in (_U, _H):
            with node.judging("STREAM-05", "each report on the new stream counts"):
                await devices.become_alike(driver, health, f"{health} on the stream after {code}")
    order = devices.plugins if number % 2 else devices.plugins[::-1]
    await _disconnect(devices, {plugin: plugin.list_ends for plugin in order})


async def _disconnect(devices: Fleet, ends: Mapping[DevicePlugin, Callable[[], Awaitable[None]]]) -> None:
    """After these ends the devices of each device plugin show Unknown, and no others, until it registers again."""
    before = dict(devices.shown)
    for plugin, end in ends.items():
        await end()
        if devices.node.profile.tells_of_lost_devices:  # otherwise DP-04 and DP-10 fail in their own scenarios
            with devices.node.judging("DP-10", "they show as Unknown, and no others"):
                devices.shown |= dict.fromkeys(plugin.gpus, (_K, ""))
                await devices.show(plugin.gpus)
    await _register_again(devices, before)


async def _register_again(devices: Fleet, before: Mapping[AnyGpu, Shown]) -> None:
    """The device plugins register again, and their devices show what they showed before."""
    await devices.node.kubelet_catches_up()  # a kubelet rejects a device plugin that is connected
    for plugin in devices.plugins:
        await plugin.registers_again()
    devices.shown |= {gpu: before[gpu] for gpu in devices.listed}
    await devices.show(devices.listed)


async def _expire_first(devices: Fleet) -> None:
    """The first report of each device of a driver is the only one until its timeout has passed."""
    node, received = devices.node, devices.now()
    ends = devices.started + FIRST_TIMEOUT
    await devices.wait_until(ends - 5)
    await devices.syncs("before the timeout of the first reports")
    if node.profile.timeouts and devices.now() < ends:  # in Kubernetes 1.34, only heartbeats keep it
        with node.judging("TIMEOUT-02", "within its timeout each device keeps its health"):
            devices.still_shows(devices.gpus)
    await devices.wait_until(received + FIRST_TIMEOUT + 0.5)
    await devices.syncs("after the timeout of the first reports")
    devices.shown |= dict.fromkeys(devices.gpus, (_K, ""))
    with node.judging("TIMEOUT-01", "it shows as Unknown"):
        if node.profile.timeouts:
            await devices.reach(devices.gpus)
        devices.still_shows(devices.gpus)


async def _expire(
    devices: Fleet,
    number: int,
    *,
    restarts: bool = False,
    renews: bool = False,
    returns: bool = False,
    alone: bool = False,
    lacks_one: bool = False,
) -> None:
    """Each device has one report with a timeout of its own, and shows Unknown after it. Every second report has a
    message. The timeout before it is longer, and in odd rounds shorter.

    Options: the kubelet restarts in between. Each report is sent a second time, with a new message for one device. The
    same report comes again after the timeout, for each device alone. The longest timeout is left out.
    """
    node, when = devices.node, f"in round {number}"
    timeouts, looks = SPANS_OF_A_RESTART if restarts else SPANS
    spans = {gpu: timeouts[(place + number) % 3] for place, gpu in enumerate(devices.gpus)}
    healths = zip(devices.gpus, MIXED[number], strict=True)
    states: dict[AnyGpu, Shown] = {
        gpu: (_H if health is _H else _U, f"{gpu} of {gpu.driver} {when}" if (place + number) % 2 else "")
        for place, (gpu, health) in enumerate(healths)
    }
    default = [gpu for gpu in devices.gpus if lacks_one and spans[gpu] == timeouts[-1]]

    async def report() -> None:
        for driver in devices.drivers:
            listed = [(gpu, gpu.reading(*states[gpu], spans[gpu])) for gpu in driver.gpus]
            await driver.control.report([replace(one, timeout=0) if gpu in default else one for gpu, one in listed])

    for driver in devices.drivers:
        await driver.is_silenced()
    if number % 2:
        for driver in devices.drivers:
            short = timeouts[0] // 2
            await driver.control.report([gpu.reading(states[gpu][0], "earlier", short) for gpu in driver.gpus])
    began = devices.now()
    await report()
    devices.shown |= states
    await devices.show(devices.gpus)
    if renews:
        await node.advance_time(looks[0])
        began = devices.now()
        marks = [gpu for gpu in devices.gpus if spans[gpu] == timeouts[-1]]  # they show when the kubelet has it
        for gpu in marks:
            states[gpu] = devices.shown[gpu] = (states[gpu][0], f"{gpu} of {gpu.driver} again {when}")
        await report()
        await devices.show(marks)
    received = devices.now()  # on a busy machine, later than `began`: the timeouts count from a time between them
    for passed, look in enumerate(looks):
        ended = timeouts[:passed]
        await devices.wait_until(max(began + look, received + ended[-1] + 0.5) if ended else began + look)
        if restarts and not ended:
            for gpu in (gpu for gpu in devices.gpus if spans[gpu] == timeouts[-1]):
                states[gpu] = devices.shown[gpu] = (states[gpu][0], f"{gpu} of {gpu.driver} later {when}")
                await gpu.driver.control.report([gpu.reading(*states[gpu], timeouts[-1] - int(look))])
                await devices.show([gpu])
            received = max(received, devices.now() - int(look))
            await _restart_in_silence(devices)  # the checkpoint is newer than most reports
        await devices.syncs(f"{len(ended)} timeouts have passed {when}")
        gone = [gpu for gpu in devices.gpus if spans[gpu] in ended and gpu not in default]
        late = [gpu for gpu in devices.gpus if spans[gpu] <= devices.now() - began]  # perhaps Unknown already
        with node.judging("TIMEOUT-02", "within its timeout each device keeps its health"):
            devices.still_shows(devices.shown.keys() - {*gone, *late})
        devices.shown |= dict.fromkeys(gone, (_K, ""))
        for gpu in gone:
            with node.judging("TIMEOUT-01", "it shows as Unknown"):
                if node.profile.timeouts:  # on a busy machine, the fence can be faster than the timer
                    await devices.reach([gpu])
                devices.still_shows([gpu])
    if default:
        await devices.wait_until(received + 30.5)
        await devices.syncs(f"thirty seconds have passed {when}")
        devices.shown |= dict.fromkeys(default, (_K, ""))
        with node.judging("TIMEOUT-03", "a device without a timeout shows Unknown after thirty seconds"):
            devices.still_shows(default)
    if returns:
        devices.shown |= states
        with node.judging("TIMEOUT-04", "the pod shows the recovery"):
            groups = [[gpu] for gpu in devices.gpus] if alone else [driver.gpus for driver in devices.drivers]
            for group in groups:
                await group[0].driver.control.report([gpu.reading(*states[gpu], spans[gpu]) for gpu in group])
                await devices.reach(group)
        await report()
        for fence in ("once", "twice"):  # the first one may be faster than the reports
            await devices.syncs(f"{fence} after the return {when}")
        devices.still_shows()
    for driver in devices.drivers:
        await driver.resumes()


async def _come_and_go(devices: Fleet, when: str, *, newest_last: bool = False) -> None:
    """Each driver has three instances, of which the newest one counts, and deregisters.

    Its newer instances stop, the newest one first or last.
    """
    node, oldest = devices.node, {driver: driver for driver in devices.drivers}
    middle = {driver: await driver.newer_instance() for driver in devices.drivers}
    newest = {driver: await newer.newer_instance() for driver, newer in middle.items()}
    await _become(devices, newest, f"of the newest instance, {when}")
    for driver in devices.drivers:
        await newest[driver].is_silenced()  # with B-02 its next report hides those of the older instances
        with node.judging("UPDATE-01", "a report of the older instance is not shown"):
            for older in (driver, middle[driver]):
                await older.control.set_health("all", _H, f"of an older instance, {when}", LASTING)
            await devices.syncs(f"{driver} {when}, after reports of older instances")
            devices.still_shows(driver.gpus)
        await newest[driver].resumes()
    stops = ((middle, newest), (newest, oldest)) if newest_last else ((newest, middle), (middle, oldest))
    for stopped, watched in stops:
        for driver in devices.drivers:
            await stopped[driver].stops()
        await node.kubelet_catches_up()
        with node.judging("UPDATE-04", "the instance before it is watched"):
            await _become(devices, watched, f"of the newest instance that is left, {when}")
    # With B-02 the end of another instance clears the devices. A busy kubelet sees it late, and the next sync shows it.
    await devices.syncs(f"the other instances have stopped, {when}")
    await _become(devices, oldest, f"of the last instance, {when}")
    for driver in devices.drivers:
        before: dict[AnyGpu, Shown] = {gpu: devices.shown[gpu] for gpu in driver.gpus}
        await driver.unregisters()
        with node.judging("STREAM-04", "the kubelet ends its stream"):
            await driver.has_no_stream()
        devices.shown |= dict.fromkeys(driver.gpus, (_K, ""))
        with node.judging("STREAM-04", "its devices show Unknown, and no others"):
            await devices.show(driver.gpus, "resync")
        await driver.stops()
        await driver.starts()
        devices.shown |= before
        with node.judging("STREAM-02", "the plugin is watched again"):
            await devices.show(driver.gpus)
    await devices.has_its_entries()


async def _become(devices: Fleet, instances: Mapping[Driver, Driver], message: str) -> None:
    """The devices of each driver become Unhealthy, as this instance reports."""
    for driver, instance in instances.items():
        await instance.is_watched()
        await instance.control.set_health("all", _U, f"{message} of {driver}", LASTING)
        devices.shown |= dict.fromkeys(driver.gpus, (_U, f"{message} of {driver}"))
    await devices.show(devices.gpus, "resync")


async def _list(devices: Fleet, number: int) -> None:
    """Each device leaves the list and comes back, in odd rounds the last one first.

    Two devices of different Pods change in one list, and each device plugin deregisters.
    """
    node = devices.node
    for plugin in devices.plugins:
        for place, listed in list(enumerate(plugin.gpus))[:: -1 if number % 2 else 1]:
            health = (_U, _H)[(place + number) % 2]
            await devices.becomes(listed, health)
            if not node.profile.tells_of_lost_devices:
                continue  # DP-05 and DP-10 fail in their own scenarios
            await listed.is_removed()
            devices.shown[listed] = (_K, "")
            with node.judging("DP-10", "a device that the list omits shows as Unknown"):
                await devices.show([listed])
            await listed.is_restored()
            devices.shown[listed] = (health, "")
            await devices.show([listed])
    for health in (_U, _H):
        for plugin in devices.plugins:
            await plugin.control.set_health("all", health)
            devices.shown |= dict.fromkeys(plugin.gpus, (health, ""))
            await devices.show(plugin.gpus)
        order = devices.plugins if health is _U else devices.plugins[::-1]
        await _disconnect(devices, {plugin: plugin.unregisters for plugin in order})
