"""The public image and the chart that runs it have the same versions and packages."""

import ast
import re
import sys
import tomllib
from importlib import metadata
from pathlib import Path

from ruamel.yaml import YAML

from drahealth.suites.targets.pods.image import DEFAULT_BASE, NEEDED

ROOT = Path(__file__).resolve().parents[4]
IMAGE, CHART = ROOT / "ci" / "deploy" / "image", ROOT / "ci" / "deploy" / "chart"
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


def required() -> list[str]:
    return (IMAGE / "requirements.txt").read_text().split()


def names(requirements: list[str]) -> list[str]:
    return [re.split(r"[<>=]", one)[0] for one in requirements]


def imported(path: Path) -> set[str]:
    """The packages that a module imports, neither ours nor Python's own."""
    nodes = list(ast.walk(ast.parse(path.read_text())))
    found = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    found |= {node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module}
    return {name.partition(".")[0] for name in found} - sys.stdlib_module_names - {"drahealth"}


def test_the_image_has_the_package_versions_of_the_project() -> None:
    assert set(required()) <= set(PROJECT["dependencies"])
    assert set(NEEDED) <= set(names(required()))


def test_the_image_has_every_package_that_its_modules_import() -> None:
    there = {module for name in names(required()) for module in (name, MODULES.get(name, name))}
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
    chart = YAML(typ="safe", pure=True).load(CHART / "drahealth-driver" / "Chart.yaml")
    assert (chart["version"], chart["appVersion"], metadata.version("drahealth")) == (version, version, version)
    for file in (IMAGE / "Dockerfile", CHART / "demo.yaml"):
        assert f"localhost/drahealth-driver:{version}" in file.read_text()
