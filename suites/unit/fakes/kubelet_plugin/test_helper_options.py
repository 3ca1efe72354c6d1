"""What makes a helper, and what does not."""

import re
from pathlib import Path
from typing import Any

import pytest

from drahealth.fakes.kubelet_plugin import KUBELET_PLUGINS_DIR, KUBELET_REGISTRY_DIR, Options
from drahealth.proto.health_apis import HEALTH_APIS

DRIVER = "gpu.example.com"
NODE = {"metadata": {"name": "node-a", "uid": "abc"}}


def test_a_drivers_name_is_enough() -> None:
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
        ({"driver_name": ""}, "'' is no name of a driver, such as gpu.example.com"),
        ({"driver_name": "GPU"}, "'GPU' is no name of a driver"),
        ({"driver_name": "a/b"}, "'a/b' is no name of a driver"),
        ({"driver_name": "a" * 64}, f"'{'a' * 64}' is no name of a driver"),
        ({"node": {"metadata": {}}}, "the node is an object of the API, with a name in its metadata"),
        ({"node": NODE, "node_name": "node-a"}, "either the node is given or its name and uid, not both"),
        ({"node_uid": "abc"}, "the uid of a node needs its name; give node_name too"),
        ({"registrar_socket": "a.sock", "rolling_update": "1"}, "a registrar_socket cannot be named with a rolling"),
        ({"registrar_socket": "a/b"}, "'a/b' is no part of a file's name; leave the slashes out"),
        ({"rolling_update": "../x"}, "'../x' is no part of a file's name; leave the slashes out"),
        ({"registrar_socket": ".a"}, "kubelets pass over '.a', as over all that begins with a dot"),
        ({"plugin_data_dir": Path("/" + "x" * 107)}, "the socket path"),
        ({"heartbeat": -1.0}, "the heartbeat is a finite number of seconds, 0 for none, not -1.0"),
        ({"heartbeat": float("nan")}, "the heartbeat is a finite number of seconds, 0 for none, not nan"),
        ({"dra_versions": ()}, "a driver serves some version of the node service; there are v1.DRAPlugin, v1beta1"),
        ({"dra_versions": ("v2.DRAPlugin",)}, "no version of the node service is called 'v2.DRAPlugin'; there are v1"),
        ({"health_apis": ("v2",)}, "no health API is called 'v2'; there are v1.DRAResourceHealth"),
        ({"served_health": ("v2",)}, f"no health API is called 'v2'; there are {', '.join(HEALTH_APIS)}"),
    ],
)
def test_what_makes_no_helper_is_refused_with_a_sentence(wrong: dict[str, Any], reason: str) -> None:
    given = {"driver_name": DRIVER, **wrong}
    with pytest.raises(ValueError, match=f"^{re.escape(reason)}"):
        Options(**given)
