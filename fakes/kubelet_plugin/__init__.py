"""A library for DRA drivers in Python: the counterpart of the Go package kubeletplugin.

    from drahealth.fakes.kubelet_plugin import Options, Pool, PrepareResult, start

    async with await start(MyPlugin(), Options("gpu.example.com", node_name="node-a", api=client)) as helper:
        helper.publish_resources({"node-a": Pool(devices)})
        await helper.wait_registered()

A driver implements `DRAPlugin`: it prepares and unprepares claims. If it reports health, it implements `HealthPlugin`
too. The library registers the driver, serves all versions of the gRPC services, serves the health APIs, and keeps the
ResourceSlices as published. docs/kubelet-plugin.md has a complete driver and maps the Go package to this one.
"""

from drahealth.fakes.kubelet_plugin.call_log import current_call
from drahealth.fakes.kubelet_plugin.helper import Helper, start
from drahealth.fakes.kubelet_plugin.interface import (
    Device,
    DRAPlugin,
    HealthNotSupported,
    HealthPlugin,
    NamespacedObject,
    PrepareResult,
)
from drahealth.fakes.kubelet_plugin.options import KUBELET_PLUGINS_DIR, KUBELET_REGISTRY_DIR, Options
from drahealth.fakes.kubelet_plugin.pools import Pool
from drahealth.fakes.kubelet_plugin.registration import RegistrationStatus
from drahealth.fakes.kubelet_plugin.slice_sync import PublishState

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
