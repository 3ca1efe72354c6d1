"""What a Pod shows while drahealth breaks and heals its devices."""

from collections.abc import Callable, Sequence
from functools import partial

from drahealth.manager.plugin import advertised_health_api
from drahealth.manager.profile import Profile
from drahealth.manager.status import resource_id
from drahealth.proto.values import DeviceId, Health, PreparedDevice
from drahealth.suites.checking.experiments.fault_steps import Bench
from drahealth.suites.checking.experiments.pod_watch import PodWatch
from drahealth.suites.checking.faults import MARGIN, Fault
from drahealth.suites.checking.kubelet.plugin import Plugin
from drahealth.suites.checking.lab import Lab
from drahealth.suites.checking.observed.devices import Device
from drahealth.suites.checking.observed.pods import shown_health
from drahealth.suites.checking.outcomes import Incomplete, NotApplicable

CdiIds = Callable[[Device], tuple[str, ...]]
"""The CDI device IDs of a prepared device."""


def faults_of_pods(faults: Sequence[Fault]) -> list[Fault]:
    """Those that need no restart of the driver; those that stay until its end come last."""
    return sorted((one for one in faults if not one.restarts), key=lambda one: one.heals == "none")


def devices_to_break(faults: Sequence[Fault]) -> frozenset[str]:
    """The names of the devices that the faults name."""
    return frozenset(one.device.rpartition("/")[2] for one in faults_of_pods(faults) if one.device)


async def break_devices(
    lab: Lab, plugin: Plugin, pod: PodWatch, devices: Sequence[Device], profile: Profile, cdi_ids: CdiIds, late: float
) -> None:
    """Breaks a device of the Pod with each fault, and heals it; waits each time until the Pod status shows it.

    `late` is the time from a report to the status. Raises NotApplicable without health, and if each
    fault needs a restart of the driver.
    """
    faults = faults_of_pods(lab.subject.faults)
    if not advertised_health_api(plugin.versions, profile):
        raise NotApplicable("health is not advertised")
    if not faults:
        raise NotApplicable("each fault needs a restart of the driver")
    bench = Bench(lab, plugin)
    for fault in faults:
        device = _device(fault, devices)
        name = resource_id(PreparedDevice(DeviceId(plugin.driver, *device), (), cdi_ids(device)), profile)
        await break_device(bench, pod, fault, device, partial(_shows, pod, name), fault.health, late)


async def break_device(
    bench: Bench,
    pod: PodWatch,
    fault: Fault,
    device: Device,
    shows: Callable[[Health], bool],
    broken: Health,
    late: float,
) -> None:
    """Breaks a device of the Pod, and heals it; waits each time until the Pod status `shows` the health.

    `broken` is the health after the break, `late` the time from a report to the status. Raises Incomplete, if the
    device is not Healthy before.
    """
    limit = fault.settle + MARGIN + late
    if not await pod.until(limit, partial(shows, Health.HEALTHY)):
        raise Incomplete(f"the Pod status did not show {device} as Healthy before fault {fault.name}")
    if await bench.breaks(fault, device):
        await pod.until(limit, partial(shows, broken))
    if await bench.heals(fault, device):
        await pod.until(limit, partial(shows, Health.HEALTHY))
    bench.lab.subject.check_running()


def _device(fault: Fault, devices: Sequence[Device]) -> Device:
    found = [one for one in devices if fault.device in ("", one.name, str(one))]
    if not found:
        raise Incomplete(f"fault {fault.name}: the Pod has no device {fault.device}")
    return found[0]


def _shows(pod: PodWatch, name: str, health: Health) -> bool:
    shown = shown_health(pod.status, name) if pod.status else None
    return shown is not None and shown.health is health
