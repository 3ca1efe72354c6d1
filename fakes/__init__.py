"""Fake hardware and a fake cluster: public, documented, usable without pytest.

A fake makes an error only after a command or an option for it. Fakes use the wire (`drahealth.proto`) and never import
the manager: a small Protocol is the interface to a kubelet's device manager.
"""

from typing import TYPE_CHECKING

from drahealth.proto.package import exports

if TYPE_CHECKING:
    from drahealth.fakes.clock import JumpClock
    from drahealth.fakes.cluster.api import (
        CLAIM_TEMPLATES,
        CLAIMS,
        DEVICE_CLASSES,
        EVENTS,
        NODES,
        PODS,
        SLICES,
        Api,
        ApiError,
        Kind,
    )
    from drahealth.fakes.cluster.api_server.http import HttpApi
    from drahealth.fakes.cluster.api_server.server import ApiServer
    from drahealth.fakes.cluster.cri import CriServer
    from drahealth.fakes.cluster.kube_client import KubeClient
    from drahealth.fakes.cluster.runtime import ContainerRuntime
    from drahealth.fakes.control.fake_options import DriverControl, DriverOptions, PluginControl, PluginOptions
    from drahealth.fakes.control.replies import DriverState, PluginState
    from drahealth.fakes.hardware.device_plugin import FakeDevicePlugin
    from drahealth.fakes.hardware.driver import FakeDriver
    from drahealth.fakes.hardware.registered import FakeNode
    from drahealth.fakes.inventory.devices import Inventory
    from drahealth.fakes.inventory.file import load_inventory
    from drahealth.proto.version import __version__
else:
    __getattr__, __dir__ = exports(__name__)

__all__ = [
    "CLAIMS",
    "CLAIM_TEMPLATES",
    "DEVICE_CLASSES",
    "EVENTS",
    "NODES",
    "PODS",
    "SLICES",
    "Api",
    "ApiError",
    "ApiServer",
    "ContainerRuntime",
    "CriServer",
    "DriverControl",
    "DriverOptions",
    "DriverState",
    "FakeDevicePlugin",
    "FakeDriver",
    "FakeNode",
    "HttpApi",
    "Inventory",
    "JumpClock",
    "Kind",
    "KubeClient",
    "PluginControl",
    "PluginOptions",
    "PluginState",
    "__version__",
    "load_inventory",
]
