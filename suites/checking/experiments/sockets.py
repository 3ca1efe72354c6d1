"""The socket files of a driver."""

from typing import Literal

from drahealth.manager.calls import path_text
from drahealth.manager.registration import find_sockets
from drahealth.proto.device_plugin import KUBELET_SOCKET
from drahealth.proto.events import SocketsListed
from drahealth.suites.checking.lab import Lab
from drahealth.suites.checking.subject.socket_files import socket_files


def list_sockets(lab: Lab, moment: Literal["registered", "ended"]) -> None:
    """Records the sockets that a kubelet finds in the registration directory, and the driver's in other directories."""
    places, foreign = lab.subject.places, lab.subject.foreign_sockets
    sockets = (socket for socket in find_sockets(places.registry_dir) if socket not in lab.subject.others)
    registry = sorted(path_text(socket.path) for socket in sockets)
    plugins = sorted(path_text(path) for path in socket_files(places.plugins_dir) if path not in foreign)
    beside_kubelet = (path for path in socket_files(places.device_plugins_dir) if path.name != KUBELET_SOCKET)
    device_plugins = sorted(path_text(path) for path in beside_kubelet if path not in foreign)
    lab.record(SocketsListed(lab.subject.label, moment, tuple(registry), tuple(plugins), tuple(device_plugins)))
