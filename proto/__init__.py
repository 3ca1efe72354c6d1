"""The wire, and the values that both sides share.

Each API has a `.proto` file and its generated modules. `services` has the methods and their real paths, `health_apis` a
codec for each health API. The others are `values`, `events` (the content of a history) and `clock`. Nothing here
imports other parts of the project.
"""

from typing import TYPE_CHECKING

from drahealth.proto.package import exports, silence_grpc

silence_grpc()

if TYPE_CHECKING:
    from drahealth.proto.clock import Clock, SystemClock
    from drahealth.proto.events import Record
    from drahealth.proto.health_apis import HEALTH_APIS, HealthApi
    from drahealth.proto.history import HistoryError, HistoryFile, read_history
    from drahealth.proto.values import (
        AllocatedClaim,
        ClaimRef,
        DeviceHealth,
        DeviceId,
        Health,
        PreparedDevice,
        ResourceHealth,
        ResourceStatus,
    )
    from drahealth.proto.version import __version__
else:
    __getattr__, __dir__ = exports(__name__)

__all__ = [
    "HEALTH_APIS",
    "AllocatedClaim",
    "ClaimRef",
    "Clock",
    "DeviceHealth",
    "DeviceId",
    "Health",
    "HealthApi",
    "HistoryError",
    "HistoryFile",
    "PreparedDevice",
    "Record",
    "ResourceHealth",
    "ResourceStatus",
    "SystemClock",
    "__version__",
    "read_history",
]
