"""Drivers and device plugins from an inventory, and the objects that they publish."""

import re
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter

from drahealth.fakes.cluster.api import SLICES
from drahealth.fakes.control.fake_options import DriverOptions, PluginOptions
from drahealth.fakes.hardware.devices import Fakes, driver_options, fakes_of, inventory_of, plugin_options
from drahealth.fakes.inventory.devices import Device, Inventory
from drahealth.fakes.inventory.file import load_inventory
from drahealth.fakes.program.user_files import FileError
from drahealth.proto.values import Health
from drahealth.suites.unit.expected_errors import file_error
from drahealth.suites.unit.fakes.driver_rig import Rig

HEAD = "format: inventory/v1\n"
TWO = """\
drivers:
- name: gpu.example.com
  policy: strict
  devices: [{name: gpu, count: 2, model: H100, partitions: [{name: mig, memory: 10Gi}]}]
- {name: nic.example.com, pool: fabric, heartbeat: 2, devices: [{name: nic, attributes: {speed: 400, rdma: true}}]}
"""


def fakes(tmp_path: Path, text: str, **options: Any) -> Fakes:
    path = tmp_path / "devices.yaml"
    path.write_text(HEAD + text)
    folders: Any = {"registry_dir": Path("/r"), "plugins_dir": Path("/p"), "device_plugins_dir": Path("/d")}
    return fakes_of(path, node="node-a", **folders, **options)


def made(tmp_path: Path, text: str, **options: Any) -> tuple[DriverOptions, ...]:
    return fakes(tmp_path, text, **options).drivers


def test_a_file_makes_several_drivers_each_with_its_own_folder_and_words(tmp_path: Path) -> None:
    gpu, nic = made(tmp_path, TWO, heartbeat=5.0)
    assert (gpu.name, gpu.devices, gpu.data_dir) == (
        "gpu.example.com",
        ("gpu-0/mig", "gpu-1/mig"),
        "/p/gpu.example.com",
    )
    assert (gpu.policy, gpu.heartbeat, gpu.pool_name) == ("strict", 5.0, "node-a")
    assert (nic.name, nic.devices, nic.heartbeat, nic.pool_name) == ("nic.example.com", ("nic",), 2.0, "fabric")
    assert nic.inventory == (Device("nic", attributes={"speed": 400, "rdma": True}),)


def test_documented_inventory_is_valid(tmp_path: Path) -> None:
    page = (Path(__file__).parents[3] / "docs/fakes.md").read_text()
    (text,) = re.findall(r"```yaml\nformat: inventory/v1\n(.*?)```", page, re.DOTALL)
    gpu, nic = made(tmp_path, text)
    assert (len(gpu.devices), gpu.devices[-1], nic.devices) == (15, "mig/slice-6", ("nic-0", "nic-1"))


def test_file_with_only_devices_makes_one_driver(tmp_path: Path) -> None:
    (driver,) = made(tmp_path, "devices: [{name: gpu}]", driver="mine.example.com")
    assert (driver.name, driver.devices, driver.data_dir) == ("mine.example.com", ("gpu",), "/p/mine.example.com")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            "devices: [{name: a}]\ndrivers: [{name: d, devices: [{name: a}]}]",
            "line 1: set devices or drivers, not both",
        ),
        ("drivers:\n- {name: D, devices: [{name: a}]}", "line 3: drivers.0.name: must be a DNS subdomain"),
        ("drivers:\n- {name: d, devices: [{name: a}], policy: nvida}", "line 3: drivers.0.policy: unknown policy"),
        (
            "drivers:\n- {name: d, devices: [{name: a}], heartbeat: -1}",
            "line 3: drivers.0.heartbeat: must be",
        ),
        (
            "drivers:\n- {name: d, devices: [{name: a}]}\n- {name: d, devices: [{name: a}]}",
            "line 4: drivers.1: duplicate",
        ),
        (
            "drivers:\n- {name: d, devices: [{name: a}, {name: a}]}",
            "line 3: drivers.0.devices.1: duplicate device name",
        ),
        (
            f"devices:\n- {{name: {'a' * 40}, partitions: [{{name: {'b' * 40}}}]}}",
            "line 3: devices.0: a device name",
        ),
        ("devices:\n- {name: a, attributes: {two words: 1}}", "line 3: devices.0.attributes.two words"),
        ("devices:\n- {name: a, attributes: {big: 9223372036854775808}}", "line 3: devices.0.attributes.big: a number"),
    ],
)
def test_invalid_driver_is_reported_by_line(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(FileError) as error:
        made(tmp_path, text)
    assert str(error.value.problems[0]).startswith(problem)


def test_load_inventory_rejects_a_file_with_several_drivers(tmp_path: Path) -> None:
    made(tmp_path, TWO)
    with file_error((6, "drivers.1")):
        load_inventory(tmp_path / "devices.yaml")


def test_options_with_an_inventory_travel_as_json(tmp_path: Path) -> None:
    for options in made(tmp_path, TWO):
        reader = TypeAdapter(DriverOptions)
        assert reader.validate_json(reader.dump_json(options)) == options
        assert reader.validate_python(asdict(options)) == options


PLUGINS = """\
devices: [{name: nic}]
plugins:
- resource: example.com/gpu
  devices: [{name: gpu, count: 2, model: H100}, {name: split, partitions: [{name: mig, count: 2}]}]
  preferred: [split/mig-1, gpu-0]
  pre_start: true
  cdi_kind: example.com/fake
  policy: nvidia-plugin
- {resource: example.com/tpu, devices: [{name: tpu}], registration: plugins_registry, catalogue: tpu}
"""


def test_a_file_has_device_plugins_beside_drivers(tmp_path: Path) -> None:
    both = fakes(tmp_path, PLUGINS, instance="a", cdi_dir="/c", seed=3)
    gpu, tpu = both.plugins
    assert [driver.name for driver in both.drivers] == ["gpu.example.com"]
    assert (gpu.resource, gpu.devices) == ("example.com/gpu", ("gpu-0", "gpu-1", "split-mig-0", "split-mig-1"))
    assert (gpu.preferred, gpu.pre_start, gpu.policy) == (("split-mig-1", "gpu-0"), True, "nvidia-plugin")
    assert (gpu.plugins_dir, gpu.cdi_kind, gpu.cdi_dir, gpu.instance, gpu.seed) == (
        "/d",
        "example.com/fake",
        "/c",
        "a",
        3,
    )
    assert (tpu.registration, tpu.registry_dir, tpu.data_dir, tpu.catalogue) == (
        "plugins_registry",
        "/r",
        "/p/example.com_tpu",
        "tpu",
    )


def test_a_file_may_have_device_plugins_alone(tmp_path: Path) -> None:
    both = fakes(tmp_path, "plugins: [{resource: example.com/gpu, devices: [{name: gpu}]}]", heartbeat=3.0)
    assert (both.drivers, [plugin.devices for plugin in both.plugins]) == ((), [("gpu",)])
    with file_error((2, "plugins.0")):
        load_inventory(tmp_path / "devices.yaml")


GPU = "{resource: e/g, devices: [{name: a, count: %d}], cdi_kind: %s}"
TPU = "{resource: e/h, devices: [{name: a, count: %d}], cdi_kind: %s}"
CLASH = f"plugins: [{GPU % (1, 'a/b-c')}, {TPU % (1, 'a-b/c')}]"
LARGE = f"plugins: [{GPU % (60000, 'a/b')}, {TPU % (60000, 'a/c')}]"


@pytest.mark.parametrize(
    ("text", "problems"),
    [
        ("x: 1", ["line 2: x: unknown key"]),
        (
            "devices: [{name: a, attributes: {b: [1]}}]",
            ["line 2: devices.0.attributes.b: must be a string, or true or false, or a whole number, got [1]"],
        ),
        (
            f"devices: [{{name: a, attributes: {{b: {'x' * 65}}}}}]",
            ["line 2: devices.0.attributes.b: must have at most"],
        ),
        ("plugins: []", ["line 2: plugins: must have at least 1 item"]),
        ("plugins: [{devices: [{name: a}]}]", ["line 2: plugins.0.resource: "]),
        ("plugins:\n- {resource: gpu, devices: [{name: a}]}", ["line 3: plugins.0.resource: "]),
        ("plugins:\n- {resource: e/g, devices: []}", ["line 3: plugins.0.devices: must have"]),
        (
            "plugins:\n- {resource: e/g, devices: [{name: a}, {name: a}]}",
            ["line 3: plugins.0.devices.1: duplicate device"],
        ),
        (
            "plugins:\n- {resource: e/g, devices: [{name: a}]}\n- {resource: e/g, devices: [{name: a}], policy: x}",
            ["line 4: plugins.1: duplicate resource e/g", "line 4: plugins.1.policy: unknown policy 'x'"],
        ),
        (
            "plugins:\n- resource: e/g\n  devices: [{name: a, count: 2}]\n  preferred: [a-0, b, a-2]",
            [
                "line 5: plugins.0.preferred.1: unknown device 'b'; valid: a-0, a-1",
                "line 5: plugins.0.preferred.2: unknown device 'a-2'; valid: a-0, a-1",
            ],
        ),
        (
            "plugins:\n- {resource: e/g, devices: [{name: a, partitions: [{name: b}]}], preferred: [a]}",
            ["line 3: plugins.0.preferred.0: unknown device 'a'; valid: a-b"],
        ),
        (
            "plugins:\n- {resource: e/g, devices: [{name: A}], preferred: [a], registration: never}",
            ["line 3: plugins.0.devices.0.name: must have", "line 3: plugins.0.registration: must be"],
        ),
        (
            "plugins:\n- {resource: e/g, devices: [{name: a}], cdi_kind: ../x}",
            ["line 3: plugins.0.cdi_kind: must be a CDI kind"],
        ),
        (
            "devices: [{name: a}]\nplugins:\n- {resource: e/g, devices: [{name: a}], cdi_kind: gpu.example.com/gpu}",
            ["line 4: plugins.0.cdi_kind: CDI kind gpu.example.com/gpu is already used by driver gpu."],
        ),
        (
            CLASH,
            ["line 2: plugins.1.cdi_kind: CDI kind a-b/c is already used by device plugin e/g"],
        ),
        (
            LARGE,
            ["line 2: plugins: at most 100000 devices are allowed"],
        ),
    ],
)
def test_invalid_device_plugin_is_reported_by_line(tmp_path: Path, text: str, problems: list[str]) -> None:
    with pytest.raises(FileError) as error:
        fakes(tmp_path, text)
    assert [str(said)[: len(known)] for said, known in zip(error.value.problems, problems, strict=True)] == problems


def test_plugin_options_are_made_from_an_inventory() -> None:
    devices = Inventory.of(1, partitions=2)
    made = plugin_options(devices, "example.com/gpu", plugins_dir="/d")
    ids = ("gpu-0-mig-0", "gpu-0-mig-1")
    assert made == PluginOptions("example.com/gpu", ids, "/d", inventory=devices.devices)


def test_whole_devices_of_given_partitions_are_known() -> None:
    options = DriverOptions("d", "n", ("a", "b/c"), "/r", "/d", linked=True, inventory=(Device("a", "H100"),))
    assert inventory_of(options).devices == (Device("a", "H100"), Device("b", link="linked"), Device("b/c"))


async def test_device_attributes_are_published(rig: Rig) -> None:
    devices = Inventory(
        [
            Device("gpu-0"),
            Device("gpu-0/mig-1", "H100", "10Gi", {"uuid": "abc", "slot": 3, "ecc": True}),
        ]
    )
    await rig.here(**known(devices)).start()
    (slice_,) = await rig.api.list(SLICES)
    assert slice_["spec"]["devices"] == [
        {
            "name": "gpu-0-mig-1",
            "attributes": {
                "model": {"string": "H100"},
                "parent": {"string": "gpu-0"},
                "uuid": {"string": "abc"},
                "slot": {"int": 3},
                "ecc": {"bool": True},
            },
            "capacity": {"memory": {"value": "10Gi"}},
        }
    ]


async def test_devices_are_published_and_reported_in_their_pools(rig: Rig) -> None:
    driver = rig.here(**known(Inventory([Device("gpu-0"), Device("nic-0", pool="fabric-1"), Device("gpu-1")])))
    await driver.start()
    pools = {s["metadata"]["name"]: s["spec"] for s in await rig.api.list(SLICES)}
    assert {name: (s["pool"]["name"], [d["name"] for d in s["devices"]]) for name, s in pools.items()} == {
        "node-a-gpu.example.com-0": ("node-a", ["gpu-0", "gpu-1"]),
        "node-a-gpu.example.com-fabric-1-0": ("fabric-1", ["nic-0"]),
    }
    async with rig.watch(driver) as stream:
        assert [(d.pool, d.device) for d in await stream.report()] == [
            ("node-a", "gpu-0"),
            ("fabric-1", "nic-0"),
            ("node-a", "gpu-1"),
        ]


async def test_device_in_another_pool_is_addressed_by_path(rig: Rig) -> None:
    driver = rig.here(**known(Inventory([Device("nic-0"), Device("nic-0/vf-0", pool="fabric")])))
    await driver.start()
    async with rig.watch(driver) as stream:
        assert await stream.shows() == {"nic-0-vf-0": "Healthy"}
        await driver.inject("xid/95", "nic-0/vf-0")
        assert [(d.pool, d.health) for d in await stream.report()] == [("fabric", "Unhealthy")]
        await driver.reset()
        await stream.report()
        for name, message in (("nic-0/vf-0", "a"), ("nic-0-vf-0", "b")):
            await driver.set_health(name, Health.UNHEALTHY, message)
            assert [(d.pool, d.message) for d in await stream.report()] == [("fabric", message)]


async def test_ten_thousand_linked_devices_are_published_and_reported(rig: Rig) -> None:
    driver = rig.here(**known(Inventory.of(10_000)))
    await driver.start()
    assert (len(await rig.api.list(SLICES)), len(driver.health.table.get("node-a", "gpu-9999").device)) == (79, 8)
    await driver.inject("xid/95", "gpu-9999")
    assert (await driver.state()).faults == {"gpu-9999": ("xid/95",)}


async def test_a_container_sees_the_environment_of_its_device(rig: Rig, tmp_path: Path) -> None:
    part = Device("gpu-0/mig-1", environment={"VISIBLE": "MIG-1"})
    await rig.here(**known(Inventory([Device("gpu-0"), part])), cdi_dir=str(tmp_path)).start()
    written = (tmp_path / "gpu.example.com-gpu.json").read_text()
    assert re.findall(r'"env": \[(.*?)\]', written) == [
        '"DRAHEALTH_GPU_0_MIG_1=gpu.example.com", "DRAHEALTH_GPU_0_MIG_1_PARENT=gpu-0", "VISIBLE=MIG-1"'
    ]


def known(inventory: Inventory) -> dict[str, Any]:
    options = driver_options(inventory, name="d", node="n", registry_dir="/r", data_dir="/d")
    return {"devices": options.devices, "inventory": options.inventory}
