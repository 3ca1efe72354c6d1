"""The parts of a cluster that need no cluster: flags, keys, ports, logs, mounts."""

import base64
import socket
from pathlib import Path

import pytest

from drahealth.suites.processes.mounts import Mount, parse_mount
from drahealth.suites.targets.kubelet.cluster import kubelet_configuration
from drahealth.suites.targets.kubelet.control_plane import api_server_flags
from drahealth.suites.targets.kubelet.layout import Layout, kubeconfig, signing_key, token_file
from drahealth.suites.targets.kubelet.processes import Reservation, choose_line, tail, telling_line

LAYOUT = Layout(Path("/tmp/dh-123456"))
NOSUID, NODEV, RELATIME, STRICTATIME = 2, 4, 1 << 21, 1 << 24


def test_feature_gates_reach_the_api_server() -> None:
    flags = api_server_flags(LAYOUT, 6443, {"ResourceHealthStatus": False, "ResourceHealthStatusMessage": True})
    assert flags[-1] == "--feature-gates=ResourceHealthStatus=false,ResourceHealthStatusMessage=true"


def test_without_gates_the_api_server_keeps_its_own() -> None:
    assert not [flag for flag in api_server_flags(LAYOUT, 6443, {}) if flag.startswith("--feature-gates")]


def test_the_kubelet_configuration_has_runtime_frequency_and_gates() -> None:
    config = kubelet_configuration(
        LAYOUT, runtime="/run/cri", port=1, sync_frequency=0.25, gates={"ResourceHealthStatus": True}
    )
    assert config["containerRuntimeEndpoint"] == "unix:///run/cri"
    assert config["syncFrequency"] == "250ms"
    assert config["featureGates"] == {"KubeletInUserNamespace": True, "ResourceHealthStatus": True}


def test_the_kubelet_writes_only_to_the_run_folder() -> None:
    config = kubelet_configuration(LAYOUT, runtime="/run/cri", port=1, sync_frequency=1, gates={})
    paths = [value for key, value in config.items() if key.lower().endswith("dir")]
    assert len(paths) == 2
    assert all(path.startswith("/tmp/dh-123456/") for path in paths)


def test_a_signing_key_is_an_ec_private_key_on_p256() -> None:
    lines = signing_key(bytes(range(32))).splitlines()
    der = base64.b64decode("".join(lines[1:-1]))
    assert (lines[0], lines[-1]) == ("-----BEGIN EC PRIVATE KEY-----", "-----END EC PRIVATE KEY-----")
    assert der == bytes.fromhex("30310201010420") + bytes(range(32)) + bytes.fromhex("a00a06082a8648ce3d030107")


def test_tokens_and_kubeconfigs_name_the_user() -> None:
    assert token_file([("t0", "system:node:a")]) == 't0,system:node:a,system:node:a,"system:masters"\n'
    assert kubeconfig("https://127.0.0.1:1", "t0")["users"] == [{"name": "local", "user": {"token": "t0"}}]


def test_only_our_server_can_bind_a_reserved_port() -> None:
    reservation = Reservation()
    with socket.socket() as stranger, pytest.raises(OSError, match="in use"):
        stranger.bind(("127.0.0.1", reservation.port))
    with socket.create_server(("127.0.0.1", reservation.port)) as server:  # sets SO_REUSEADDR, as Go does
        assert server.getsockname()[1] == reservation.port
    reservation.release()


LOG = """I1121 11:30:51.1 7 a.go:1] "Starting"
E1121 11:30:51.994256      16 run.go:72] "command failed" err="no runtime"
I1121 11:30:52.1 7 a.go:1] "Stopping"
"""


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (LOG, 'run.go:72] "command failed" err="no runtime"'),
        (LOG + "panic: nil map\n", "panic: nil map"),
        ("plain words\n\n", "plain words"),
        ("", ""),
    ],
)
def test_the_most_important_line_is_the_last_of_the_highest_severity(text: str, line: str) -> None:
    assert choose_line(text) == line


def test_a_tail_is_the_end_of_the_log(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("".join(f"line {number}\n" for number in range(100_000)))
    assert tail(tmp_path / "log", 2) == "line 99998\nline 99999"
    assert telling_line(tmp_path / "none") == "its log is empty"


@pytest.mark.parametrize(
    ("line", "mount"),
    [
        ("43 42 254:0 / / rw,relatime - ext4 /dev/vda rw,discard\n", Mount("/", RELATIME)),
        ("60 59 0:27 / /a\\040b rw,nosuid,nodev shared:3 - tmpfs t rw\n", Mount("/a b", NOSUID | NODEV | STRICTATIME)),
    ],
)
def test_mounts_are_read_with_their_flags(line: str, mount: Mount) -> None:
    assert parse_mount(line) == mount
