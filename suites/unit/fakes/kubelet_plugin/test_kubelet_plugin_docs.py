"""docs/reference/kubelet-plugin.md covers the whole Go package, and docs/minimal_driver.py works."""

import asyncio
import os
import re
import runpy
import signal
import sys
from contextlib import aclosing
from pathlib import Path

import pytest

from drahealth.fakes import kubelet_plugin
from drahealth.fakes.cluster.api import SLICES
from drahealth.fakes.cluster.api_server.http import HttpApi
from drahealth.proto.health_apis import V1
from drahealth.suites.unit.fakes.kubelet_plugin.plugin_rig import PluginRig

DOCS = Path(__file__).parents[4] / "docs"
PAGE = (DOCS / "reference" / "kubelet-plugin.md").read_text()

ITEMS = [
    "KubeletPluginsDir",
    "KubeletRegistryDir",
    "DRAPlugin",
    "DRAPlugin.PrepareResourceClaims",
    "DRAPlugin.UnprepareResourceClaims",
    "Device",
    "Device.Requests",
    "Device.PoolName",
    "Device.DeviceName",
    "Device.CDIDeviceIDs",
    "Helper",
    "Start",
    "Helper.PublishResources",
    "Helper.RegistrationStatus",
    "Helper.Stop",
    "NamespacedObject",
    "NamespacedObject.NamespacedName",
    "NamespacedObject.UID",
    "NamespacedObject.MarshalLog",
    "NamespacedObject.String",
    "Option",
    "DriverName",
    "FlockDirectoryPath",
    "GRPCInterceptor",
    "GRPCStreamInterceptor",
    "GRPCVerbosity",
    "KubeClient",
    "NodeName",
    "NodeUID",
    "NodeV1beta1",
    "PluginDataDirectoryPath",
    "PluginListener",
    "RegistrarDirectoryPath",
    "RegistrarListener",
    "RegistrarSocketFilename",
    "RollingUpdate",
    "Serialize",
    "PrepareResult",
    "PrepareResult.Err",
    "PrepareResult.Devices",
]
"""What k8s.io/dynamic-resource-allocation/kubeletplugin v0.33.0 exports, with the fields and methods of its types."""

ROWS = {
    cells[0].strip("`"): cells[1].strip("`")
    for line in PAGE.partition("v0.37 adds")[0].splitlines()
    if len(cells := [cell.strip() for cell in line.strip("|").split("|")]) == 3 and cells[0].startswith("`")
}


def test_rows_of_the_page_match_the_go_package() -> None:
    assert sorted(ROWS) == sorted(ITEMS)


@pytest.mark.parametrize("ours", sorted({name for name in ROWS.values() if re.fullmatch(r"[\w.]+", name)} - {"none"}))
def test_python_name_in_each_row_exists(ours: str) -> None:
    name, _, member = ours.partition(".")
    found = getattr(kubelet_plugin, name)
    assert not member or member in dir(found) or member in found.__dataclass_fields__


async def test_minimal_driver_publishes_registers_reports_health_and_exits(rig: PluginRig) -> None:
    http = HttpApi(rig.api)
    await http.start()
    http.write_kubeconfig(rig.root / "kubeconfig")
    program = [sys.executable, str(DOCS / "minimal_driver.py"), "node-a", str(rig.root / "kubeconfig"), str(rig.root)]
    driver = await asyncio.create_subprocess_exec(*program, env={**os.environ, "PYTHONWARNINGS": "error"})
    async with aclosing(rig.api.watch(SLICES)) as slices:
        spec = (await anext(slices)).object["spec"]
    assert (spec["driver"], [device["name"] for device in spec["devices"]]) == (
        "minimal.example.com",
        ["dev-0", "dev-1"],
    )
    info = await rig.ask("plugins_registry/minimal.example.com-reg.sock")
    assert (info.name, "v1.DRAResourceHealth" in info.supported_versions) == ("minimal.example.com", True)
    async with rig.watch(V1, "plugins/minimal.example.com/dra.sock") as stream:
        assert await stream.shows() == {"dev-0": "Healthy", "dev-1": "Healthy"}
    driver.send_signal(signal.SIGTERM)
    assert (await driver.wait(), rig.sockets()) == (0, [])
    await http.stop()


async def test_device_of_minimal_driver_gets_hot_and_cool_again() -> None:
    names = runpy.run_path(str(DOCS / "minimal_driver.py"))
    names["MinimalDriver"].pause = 0
    async with aclosing(names["MinimalDriver"]("node-a").watch_health()) as reports:
        found = [await anext(reports) for _ in range(4)]
    assert [[str(one.health) for one in report] for report in found] == [
        ["Healthy", "Healthy"],
        ["Healthy", "Unhealthy"],
    ] * 2
