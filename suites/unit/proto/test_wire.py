"""Message schemas on the wire, and the generated modules compared with the compiler output."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from drahealth.proto import (
    device_plugin_v1beta1_pb2,
    dra_v1_pb2,
    dra_v1beta1_pb2,
    health_v1_pb2,
    health_v1alpha1_pb2,
    node_health_draft_pb2,
    node_health_pb2,
    registration_v1_pb2,
)

CHECKOUT = Path(__file__).parents[3]

# Fact W-03.
SHIPPED_HEALTH = {
    "NodeWatchResourcesRequest": {},
    "NodeWatchResourcesResponse": {"devices": (1, "repeated DeviceHealth")},
    "DeviceIdentifier": {"pool_name": (1, "string"), "device_name": (2, "string")},
    "DeviceHealth": {
        "device": (1, "DeviceIdentifier"),
        "health": (2, "HealthStatus"),
        "last_updated_time": (3, "int64"),
        "health_check_timeout_seconds": (4, "int64"),
        "message": (5, "string"),
    },
}

# Fact W-07.
CLAIM = {"namespace": (1, "string"), "uid": (2, "string"), "name": (3, "string")}
DEVICE = {
    "request_names": (1, "repeated string"),
    "pool_name": (2, "string"),
    "device_name": (3, "string"),
    "cdi_device_ids": (4, "repeated string"),
}
DRA_V1BETA1 = {
    "Claim": CLAIM,
    "NodePrepareResourcesRequest": {"claims": (1, "repeated Claim")},
    "NodePrepareResourcesResponse": {"claims": (1, "map<string, NodePrepareResourceResponse>")},
    "NodePrepareResourceResponse": {"devices": (1, "repeated Device"), "error": (2, "string")},
    "Device": DEVICE,
    "NodeUnprepareResourcesRequest": {"claims": (1, "repeated Claim")},
    "NodeUnprepareResourcesResponse": {"claims": (1, "map<string, NodeUnprepareResourceResponse>")},
    "NodeUnprepareResourceResponse": {"error": (1, "string")},
}
DRA_V1 = {**DRA_V1BETA1, "Device": {**DEVICE, "share_id": (5, "string")}}

# Fact W-11.
REGISTRATION = {
    "InfoRequest": {},
    "PluginInfo": {
        "type": (1, "string"),
        "name": (2, "string"),
        "endpoint": (3, "string"),
        "supported_versions": (4, "repeated string"),
    },
    "RegistrationStatus": {"plugin_registered": (1, "bool"), "error": (2, "string")},
    "RegistrationStatusResponse": {},
}

# KEP-4680, "gRPC API for DRA Device Health".
NODE_HEALTH = {
    "WatchResourcesRequest": {},
    "WatchResourcesResponse": {"devices": (1, "repeated DeviceHealth")},
    "DeviceHealth": {
        "pool_name": (1, "string"),
        "device_name": (2, "string"),
        "health_status": (3, "string"),
        "last_updated_timestamp": (4, "int64"),
        "health_check_timeout_seconds": (5, "int64"),
    },
}

# KEP-4680, oldest revision, "DRA implementation details"; the device is that of the node service's v1alpha4.
NODE_HEALTH_DRAFT = {
    "Empty": {},
    "DevicesStatusResponse": {"devices": (1, "repeated Device")},
    "Device": {
        "request_names": (1, "repeated string"),
        "pool_name": (2, "string"),
        "device_name": (3, "string"),
        "cdi_device_ids": (4, "repeated string"),
        "health": (5, "string"),
    },
}

# Fact D-13.
DEVICE_PLUGIN = {
    "Empty": {},
    "DevicePluginOptions": {"pre_start_required": (1, "bool"), "get_preferred_allocation_available": (2, "bool")},
    "RegisterRequest": {
        "version": (1, "string"),
        "endpoint": (2, "string"),
        "resource_name": (3, "string"),
        "options": (4, "DevicePluginOptions"),
    },
    "ListAndWatchResponse": {"devices": (1, "repeated Device")},
    "Device": {"ID": (1, "string"), "health": (2, "string"), "topology": (3, "TopologyInfo")},
    "TopologyInfo": {"nodes": (1, "repeated NUMANode")},
    "NUMANode": {"ID": (1, "int64")},
    "PreferredAllocationRequest": {"container_requests": (1, "repeated ContainerPreferredAllocationRequest")},
    "ContainerPreferredAllocationRequest": {
        "available_deviceIDs": (1, "repeated string"),
        "must_include_deviceIDs": (2, "repeated string"),
        "allocation_size": (3, "int32"),
    },
    "PreferredAllocationResponse": {"container_responses": (1, "repeated ContainerPreferredAllocationResponse")},
    "ContainerPreferredAllocationResponse": {"deviceIDs": (1, "repeated string")},
    "AllocateRequest": {"container_requests": (1, "repeated ContainerAllocateRequest")},
    "ContainerAllocateRequest": {"devices_ids": (1, "repeated string")},
    "AllocateResponse": {"container_responses": (1, "repeated ContainerAllocateResponse")},
    "ContainerAllocateResponse": {
        "envs": (1, "map<string, string>"),
        "mounts": (2, "repeated Mount"),
        "devices": (3, "repeated DeviceSpec"),
        "annotations": (4, "map<string, string>"),
        "cdi_devices": (5, "repeated CDIDevice"),
    },
    "Mount": {"container_path": (1, "string"), "host_path": (2, "string"), "read_only": (3, "bool")},
    "DeviceSpec": {"container_path": (1, "string"), "host_path": (2, "string"), "permissions": (3, "string")},
    "CDIDevice": {"name": (1, "string")},
    "PreStartContainerRequest": {"devices_ids": (1, "repeated string")},
    "PreStartContainerResponse": {},
}


def schema(module: Any) -> dict[str, dict[str, tuple[int, str]]]:
    """A module's messages: number and type of each field by name."""
    messages = module.DESCRIPTOR.message_types_by_name.values()
    return {m.name: {f.name: (f.number, spelled(f)) for f in m.fields} for m in messages}


def spelled(field: Any) -> str:
    message = field.message_type
    if message and message.GetOptions().map_entry:
        return "map<" + ", ".join(spelled(part) for part in message.fields) + ">"
    plain = {field.TYPE_STRING: "string", field.TYPE_BOOL: "bool"}
    plain |= {field.TYPE_INT64: "int64", field.TYPE_INT32: "int32"}
    name = message.name if message else field.enum_type.name if field.enum_type else plain[field.type]
    # protobuf 6.30 has only `label`, which newer ones warn of
    repeated = field.is_repeated if hasattr(field, "is_repeated") else field.label == field.LABEL_REPEATED
    return f"repeated {name}" if repeated else name


@pytest.mark.parametrize(
    ("module", "facts"),
    [
        (health_v1_pb2, SHIPPED_HEALTH),
        (health_v1alpha1_pb2, SHIPPED_HEALTH),
        (dra_v1_pb2, DRA_V1),
        (dra_v1beta1_pb2, DRA_V1BETA1),
        (registration_v1_pb2, REGISTRATION),
        (node_health_pb2, NODE_HEALTH),
        (node_health_draft_pb2, NODE_HEALTH_DRAFT),
        (device_plugin_v1beta1_pb2, DEVICE_PLUGIN),
    ],
    ids=lambda value: getattr(value, "__name__", "").rpartition(".")[2],
)
def test_fields_have_the_numbers_and_types_of_the_wire(module: Any, facts: Any) -> None:
    assert schema(module) == facts


@pytest.mark.counterpart("TestSchemasMatch", "TestHealthStatusValuesMatch")
def test_both_released_health_apis_have_the_same_schema() -> None:
    assert schema(health_v1_pb2) == schema(health_v1alpha1_pb2)
    assert health_v1_pb2.HealthStatus.items() == health_v1alpha1_pb2.HealthStatus.items()


@pytest.mark.counterpart("TestHealthStatusValuesMatch")
def test_the_enum_of_health_has_the_numbers_of_the_wire() -> None:
    assert dict(health_v1_pb2.HealthStatus.items()) == {"UNKNOWN": 0, "HEALTHY": 1, "UNHEALTHY": 2}


def test_only_share_id_distinguishes_empty_from_absent() -> None:
    present = [f.name for m in dra_v1_pb2.DESCRIPTOR.message_types_by_name.values() for f in m.fields if f.has_presence]
    assert present == ["share_id"]


def test_package_names_are_unique_and_differ_from_kubernetes_packages() -> None:
    health = (health_v1_pb2, health_v1alpha1_pb2, node_health_pb2, node_health_draft_pb2)
    modules = (*health, dra_v1_pb2, dra_v1beta1_pb2, registration_v1_pb2, device_plugin_v1beta1_pb2)
    packages = [module.DESCRIPTOR.package for module in modules]
    assert all(package.startswith("drahealth.wire.") for package in packages)
    assert len(set(packages)) == len(packages)


def modules(folder: Path) -> dict[str, str]:
    """The generated modules in a folder, by their paths."""
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*_pb2.py*")}


def test_checked_in_modules_equal_the_output_of_the_pinned_compiler(tmp_path: Path) -> None:
    offline = {"PIP_RETRIES": "1", "PIP_TIMEOUT": "10", "PYTHON": sys.executable}
    command = [CHECKOUT / "ci/proto/generate", tmp_path]
    done = subprocess.run(command, env=os.environ | offline, capture_output=True, text=True, check=False, timeout=240)
    if done.returncode and re.search("No matching distribution|connection broken", done.stderr):
        pytest.skip("pip reaches no package index, so the pinned compiler cannot be had")
    assert (done.returncode, done.stderr) == (0, "")
    assert modules(tmp_path / "proto") == modules(CHECKOUT / "proto")
