"""A library for DRA drivers in Python: the counterpart of the Go package kubeletplugin.

    from drahealth.fakes.kubelet_plugin import Options, Pool, PrepareResult, start

    async with await start(MyPlugin(), Options("gpu.example.com", node_name="node-a", api=client)) as helper:
        helper.publish_resources({"node-a": Pool(devices)})
        await helper.wait_registered()

A driver implements `DRAPlugin`: it prepares and unprepares claims. If it reports health, it implements `HealthPlugin`
too. The library registers the driver, serves all versions of the gRPC services, serves the health APIs, and keeps the
ResourceSlices as published. docs/python.md has a complete driver and maps the Go package to this one.
"""

from drahealth.fakes.kubelet_plugin.helper import Helper, start
from drahealth.fakes.kubelet_plugin.interface import (
    KUBELET_PLUGINS_DIR,
    KUBELET_REGISTRY_DIR,
    Device,
    DRAPlugin,
    HealthNotSupported,
    HealthPlugin,
    NamespacedObject,
    Options,
    PrepareResult,
)
from drahealth.fakes.kubelet_plugin.services import RegistrationStatus, current_call
from drahealth.fakes.kubelet_plugin.slices import Pool, PublishState

__all__ = [
    "KUBELET_PLUGINS_DIR",
    "KUBELET_REGISTRY_DIR",
    "DRAPlugin",
    "Device",
    "HealthNotSupported",
    "HealthPlugin",
    "Helper",
    "NamespacedObject",
    "Options",
    "Pool",
    "PrepareResult",
    "PublishState",
    "RegistrationStatus",
    "current_call",
    "start",
]
