"""Two nodes of `drahealth up`: the reference, and a real one. The programs kubectl."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from drahealth.manager.releases import DEFAULT_VERSION, RELEASES
from drahealth.suites.targets.kubelet.ensure import ensure_kubectl
from drahealth.suites.unit.up_command.node_commands import RELEASE, drahealth, folder_of_nodes

OLDER = tuple(release.newest for release in RELEASES[:-1])
"""The other releases of kubectl. They are used with `--every-kubectl`: each takes half a minute."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--every-kubectl", action="store_true", help="Compare the kubectls of older releases, too.")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "kubectl_version" in metafunc.fixturenames:
        older = OLDER if metafunc.config.getoption("every_kubectl") else ()
        metafunc.parametrize("kubectl_version", [DEFAULT_VERSION, *older], scope="session")


@pytest.fixture(scope="session")
def program(kubectl_version: str) -> Path:
    """The kubectl of this release."""
    return ensure_kubectl(kubectl_version)


@contextmanager
def node(name: str, *options: str) -> Iterator[Path]:
    """The kubeconfig of a Ready node, which has the default name, as the other one has."""
    with folder_of_nodes(name) as folder:
        drahealth("up", *options)
    yield folder / "drahealth" / "kubeconfig"
    with folder_of_nodes(name):
        drahealth("down", "--all")
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def reference() -> Iterator[Path]:
    with node("ref", "--reference") as kubeconfig:
        yield kubeconfig


@pytest.fixture(scope="session")
def real() -> Iterator[Path]:
    with node("real", *RELEASE) as kubeconfig:
        yield kubeconfig


@pytest.fixture(scope="session")
def kubeconfig(real: Path) -> Path:
    """The node on which the tests of `suites/unit/clients` run here."""
    return real
