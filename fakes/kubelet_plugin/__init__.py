"""What a DRA driver needs to work with a kubelet: the Python counterpart of the Go package kubeletplugin.

    from drahealth.fakes.kubelet_plugin import Options, Pool, PrepareResult, start

    async with await start(MyPlugin(), Options("gpu.example.com", node_name="node-a", api=client)) as helper:
        helper.publish_resources({"node-a": Pool(devices)})
        await helper.wait_registered()

The driver is a `DRAPlugin`: it prepares and unprepares claims. With `watch_health` it is a `HealthPlugin` too. The rest
is done here: registration, the gRPC services of a node plugin in all their versions, ResourceSlices that stay as they
were published, the health APIs. docs/kubelet-plugin.md has a whole driver, and how all this maps to the Go package.
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
