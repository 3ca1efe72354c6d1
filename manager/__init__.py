"""The reference: all that a kubelet does with the health of devices, and nothing else.

Pure inside (`cache`, `stream`, `claims`, `status`; `resources`, `allocations`; time is an argument), edges around it
(`registration`, `plugin`, `checkpoint`; `kubelet_socket`, `device_plugin`, `allocation_checkpoint`). `dra` and
`device_plugins` join them to the two halves of a kubelet's device manager, `manager` is the whole. What differs between
the KEP and the releases is a `profile`.
"""

from typing import TYPE_CHECKING

from drahealth.proto.exports import exports

if TYPE_CHECKING:
    from drahealth.manager.dra import Device, PrepareError
    from drahealth.manager.gates import Gates
    from drahealth.manager.manager import DeviceManager
    from drahealth.manager.profile import KEP, PROFILES, Profile
    from drahealth.proto.version import __version__
else:
    __getattr__, __dir__ = exports(__name__)

__all__ = [
    "KEP",
    "PROFILES",
    "Device",
    "DeviceManager",
    "Gates",
    "PrepareError",
    "Profile",
    "__version__",
]
