"""A registered device plugin, and what a kubelet requires of a registration. Values."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from drahealth.proto.device_plugin import VERSION
from drahealth.proto.extended_resources import is_extended_resource
from drahealth.proto.quoting import one_line

Way = Literal["kubelet.sock", "plugins_registry"]
"""How a plugin registers: it calls the kubelet's socket, or the kubelet finds its registration socket."""


@dataclass(frozen=True, slots=True)
class RegisteredPlugin:
    """A device plugin after its registration, with its options."""

    resource: str
    endpoint: Path
    """Socket of the DevicePlugin service."""
    way: Way
    has_preference: bool = False
    """Whether it advertises GetPreferredAllocation."""
    wants_pre_start: bool = False
    """Whether it requires PreStartContainer."""


def registration_problem(resource: str, *versions: str) -> str:
    """Why a kubelet refuses these fields of a registration (D-11); empty if it accepts them."""
    if VERSION not in versions:
        return f"version must be {VERSION}, got {one_line(', '.join(map(repr, versions)) or 'none')}"
    if not is_extended_resource(resource):
        return f"{one_line(repr(resource))} is not the name of an extended resource, such as example.com/gpu"
    return ""
