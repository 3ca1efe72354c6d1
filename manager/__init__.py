"""The reference: what a kubelet does with the health of devices, and nothing else.

The core is pure (`cache`, `stream`, `claims`, `status`; `resources`, `allocations`), with time as an argument. The I/O
is around it (`registration`, `plugin`, `calls`, `checkpoint`). `dra` and `device_plugins` are the two halves of a
kubelet's device manager, and `manager` joins them. Differences between the KEP and the releases are in `profile`.
"""

from typing import TYPE_CHECKING

from drahealth.proto.package import exports

if TYPE_CHECKING:
    from drahealth.manager.dra import Device, PrepareError
    from drahealth.manager.manager import DeviceManager
    from drahealth.manager.profile import KEP, Gates, Profile
    from drahealth.manager.releases import PROFILES
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
