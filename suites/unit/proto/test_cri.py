"""The table of the Container Runtime Interface."""

from drahealth.fakes.cluster import cri
from drahealth.proto.services import Unary

METHODS = [method for method in vars(cri).values() if isinstance(method, Unary)]


def test_every_method_carries_the_messages_of_its_name() -> None:
    carried = {m.path.rsplit("/")[-1]: (m.request.__name__, m.response.__name__) for m in METHODS}
    assert carried == {name: (f"{name}Request", f"{name}Response") for name in carried}


def test_table_has_all_methods_of_both_services() -> None:
    services = [method.path.split("/")[1] for method in METHODS]
    assert {name: services.count(name) for name in services} == {
        "runtime.v1.RuntimeService": 23,
        "runtime.v1.ImageService": 5,
    }
