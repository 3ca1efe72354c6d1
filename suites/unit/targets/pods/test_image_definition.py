"""The public image and the chart that runs it have the same versions and packages."""

import ast
import re
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

from ruamel.yaml import YAML

from drahealth.suites.targets.pods.driver_image import DEFAULT_BASE, requirements

ROOT = Path(__file__).resolve().parents[4]
IMAGE, CHART = ROOT / "fakes" / "image", ROOT / "fakes" / "chart"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

NOT_THERE = {
    "cryptography": "cluster/api_server/http.py",
}
"""Imported where it is used, by what an image has no use for: a pod serves no API."""
MODULES = {
    "grpcio": "grpc",
    "protobuf": "google",
    "pydantic": "pydantic_core",
    "pyyaml": "yaml",
    "ruamel.yaml": "ruamel",
    "prometheus-client": "prometheus_client",
}
"""What a package is imported as besides its name."""


def imported(path: Path) -> set[str]:
    """The packages that a module imports, neither ours nor Python's own."""
    nodes = list(ast.walk(ast.parse(path.read_text())))
    found = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    found |= {node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module}
    return {name.partition(".")[0] for name in found} - sys.stdlib_module_names - {"drahealth"}


def test_the_image_has_the_package_versions_of_the_project() -> None:
    assert set(requirements()) <= set(PROJECT["dependencies"])


def test_the_drivers_process_needs_no_module_that_the_image_removes() -> None:
    (listed,) = re.findall(r"^for part in (.*); do$", (IMAGE / "install").read_text(), re.MULTILINE)
    removed = tuple(f"kubernetes.{part.replace('/', '.')}." for part in listed.split())
    programs = "drahealth.fakes.serve.session_process, drahealth.fakes.cluster.kube_client"
    loaded = f"import sys, kubernetes.aio.dynamic, {programs}; print(*sys.modules)"
    found = subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True, check=True).stdout.split()
    assert len(removed) == 4
    assert [name for name in found if name.startswith(removed)] == []


def test_the_image_has_every_package_that_its_modules_import() -> None:
    there = {
        module
        for name in [re.split(r"[<>=]", one)[0] for one in requirements()]
        for module in (name, MODULES.get(name, name))
    }
    missing = {
        (name, str(path.relative_to(ROOT / "fakes")))
        for part in ("fakes", "proto")
        for path in (ROOT / part).rglob("*.py")
        for name in imported(path) - there
    }
    assert missing == set(NOT_THERE.items())


def test_the_image_has_the_base_of_the_kind_target() -> None:
    assert f"ARG BASE={DEFAULT_BASE}\n" in (IMAGE / "Dockerfile").read_text()


def test_the_chart_the_image_and_the_demo_have_the_version_of_the_project() -> None:
    version = PROJECT["version"]
    chart = YAML(typ="safe", pure=True).load(CHART / "Chart.yaml")
    assert (chart["version"], chart["appVersion"], metadata.version("drahealth")) == (version, version, version)
    for file in (IMAGE / "Dockerfile", ROOT / "ci" / "deploy" / "chart" / "demo.yaml"):
        assert f"localhost/drahealth-driver:{version}" in file.read_text()
