"""Valid and invalid options of a helper."""

import re
from pathlib import Path
from typing import Any

import pytest

from drahealth.fakes.kubelet_plugin import KUBELET_PLUGINS_DIR, KUBELET_REGISTRY_DIR, Options
from drahealth.proto.health_apis import HEALTH_APIS

DRIVER = "gpu.example.com"
NODE = {"metadata": {"name": "node-a", "uid": "abc"}}


def test_driver_name_sets_the_default_socket_paths() -> None:
    options = Options(DRIVER)
    assert options.plugin_socket == KUBELET_PLUGINS_DIR / DRIVER / "dra.sock"
    assert options.registration_socket == KUBELET_REGISTRY_DIR / f"{DRIVER}-reg.sock"


def test_a_node_is_its_name_and_uid() -> None:
    assert Options(DRIVER, node=NODE).node_of == ("node-a", "abc")
    assert Options(DRIVER, node_name="node-a", node_uid="abc").node_of == ("node-a", "abc")


def test_names_of_sockets_that_would_be_too_long_are_hashed_and_differ() -> None:
    uids = [f"7d8b1f0e-0b1c-4f0a-9f3e-1c2d3e4f5a6{digit}" for digit in range(2)]
    paths = [Options(f"{'gpu.' * 13}example.com", rolling_update=uid).registration_socket for uid in uids]
    assert len(set(paths)) == 2
    assert all(re.fullmatch(r"[0-9a-f]{12}-reg\.sock", path.name) for path in paths)


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"driver_name": ""}, "driver_name .* got ''"),
        ({"driver_name": "GPU"}, "driver_name .* got 'GPU'"),
        ({"driver_name": "a/b"}, "driver_name .* got 'a/b'"),
        ({"driver_name": "a" * 64}, "driver_name .* at most 63"),
        ({"node": {"metadata": {}}}, r"metadata\.name"),
        ({"node": NODE, "node_name": "node-a"}, "node_name .* not both"),
        ({"node_uid": "abc"}, "node_uid needs node_name"),
        ({"registrar_socket": "a.sock", "rolling_update": "1"}, "registrar_socket or rolling_update, not both"),
        ({"registrar_socket": "a/b"}, "registrar_socket .* got 'a/b'"),
        ({"rolling_update": "../x"}, r"rolling_update .* got '\.\./x'"),
        ({"registrar_socket": ".a"}, r"registrar_socket .* dot, got '\.a'"),
        ({"plugin_data_dir": Path("/" + "x" * 107)}, "socket path"),
        ({"heartbeat": -1.0}, "heartbeat .* got -1.0"),
        ({"heartbeat": float("nan")}, "heartbeat .* got nan"),
        ({"dra_versions": ()}, "dra_versions is empty; .* v1.DRAPlugin, v1beta1.DRAPlugin"),
        ({"dra_versions": ("v2.DRAPlugin",)}, "dra_versions .* v1.DRAPlugin, .* got 'v2.DRAPlugin'"),
        ({"health_apis": ("v2",)}, "health_apis .* v1.DRAResourceHealth.* got 'v2'"),
        ({"served_health": ("v2",)}, f"served_health .* {', '.join(HEALTH_APIS)}, got 'v2'"),
    ],
)
def test_invalid_option_is_rejected_by_name_and_value(wrong: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        Options(**{"driver_name": DRIVER, **wrong})
