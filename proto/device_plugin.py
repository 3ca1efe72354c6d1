"""The gRPC methods of device plugins, version v1beta1: the kubelet's registration service, and the plugin's own."""

from drahealth.proto import device_plugin_v1beta1_pb2 as wire
from drahealth.proto.services import ServerStream, Unary

VERSION = "v1beta1"
"""What a plugin names as its version, in Register and in GetInfo (D-11)."""

KUBELET_SOCKET = "kubelet.sock"
"""The kubelet's registration socket, in the directory of the device plugins (D-11)."""

REGISTER = Unary("/v1beta1.Registration/Register", wire.RegisterRequest, wire.Empty)
GET_OPTIONS = Unary("/v1beta1.DevicePlugin/GetDevicePluginOptions", wire.Empty, wire.DevicePluginOptions)
LIST_AND_WATCH = ServerStream("/v1beta1.DevicePlugin/ListAndWatch", wire.Empty, wire.ListAndWatchResponse)
GET_PREFERRED_ALLOCATION = Unary(
    "/v1beta1.DevicePlugin/GetPreferredAllocation", wire.PreferredAllocationRequest, wire.PreferredAllocationResponse
)
ALLOCATE = Unary("/v1beta1.DevicePlugin/Allocate", wire.AllocateRequest, wire.AllocateResponse)
PRE_START_CONTAINER = Unary(
    "/v1beta1.DevicePlugin/PreStartContainer", wire.PreStartContainerRequest, wire.PreStartContainerResponse
)
