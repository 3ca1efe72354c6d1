"""Health overrides of devices while the driver adds and removes devices."""

from drahealth.fakes.kubelet_plugin.health_table import HealthOverride, HealthTable
from drahealth.proto.values import DeviceHealth, Health

HERE, GONE = ("node-a", "gpu-0"), ("node-a", "gpu-1")
SICK = HealthOverride(Health.UNHEALTHY, "by hand")


def well(*names: tuple[str, str]) -> list[DeviceHealth]:
    return [DeviceHealth(*name, Health.HEALTHY) for name in names]


def said(table: HealthTable) -> dict[str, tuple[Health, str]]:
    return {device.device: (device.health, device.message) for device in table.all()}


def test_overrides_of_other_devices_work_after_a_device_is_removed() -> None:
    table = HealthTable("gpu.example.com", well(HERE, GONE))
    table.set_overrides({HERE: SICK, GONE: SICK})
    table.replace_devices(well(HERE))
    assert said(table) == {"gpu-0": (Health.UNHEALTHY, "by hand")}
    table.set_overrides({})
    assert said(table) == {"gpu-0": (Health.HEALTHY, "")}


def test_returning_device_has_its_override() -> None:
    table = HealthTable("gpu.example.com", well(HERE, GONE))
    table.set_overrides({GONE: SICK})
    table.replace_devices(well(HERE))
    table.replace_devices(well(HERE, GONE))
    assert said(table) == {"gpu-0": (Health.HEALTHY, ""), "gpu-1": (Health.UNHEALTHY, "by hand")}
    table.set_overrides({})
    assert said(table) == dict.fromkeys(("gpu-0", "gpu-1"), (Health.HEALTHY, ""))
