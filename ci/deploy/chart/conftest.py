"""The chart, rendered by the Helm that DRAHEALTH_HELM names (`ci/step chart` runs these tests with it)."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

CHART = Path(__file__).resolve().parents[3] / "fakes" / "chart"
RELEASE, NAMESPACE = "fake", "fakes"

Values = dict[str, Any]
Objects = list[dict[str, Any]]


class Helm:
    """The command, and the chart."""

    def __init__(self, folder: Path) -> None:
        self.program = os.environ["DRAHEALTH_HELM"]
        self._values = folder / "values.yaml"
        home = {name: str(folder / name) for name in ("HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME")}
        self.environment = {**os.environ, **home}

    def run(self, *arguments: str, values: Values | None = None) -> subprocess.CompletedProcess[str]:
        """Runs the command with these values; returns its exit code and output."""
        given = []
        if values is not None:
            YAML().dump(values, self._values)
            given = ["--values", str(self._values)]
        return subprocess.run(
            [self.program, *arguments, *given],
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )

    def template(self, values: Values) -> subprocess.CompletedProcess[str]:
        """`helm template` of a release of ours."""
        return self.run("template", RELEASE, str(CHART), "--namespace", NAMESPACE, values=values)


@pytest.fixture(scope="session")
def helm(tmp_path_factory: pytest.TempPathFactory) -> Helm:
    return Helm(tmp_path_factory.mktemp("helm"))


@pytest.fixture(scope="session")
def render(helm: Helm) -> Callable[..., Objects]:
    """The objects of a release with these values."""

    def render(**values: Any) -> Objects:
        done = helm.template(values)
        assert done.returncode == 0, done.stderr
        return [found for found in YAML(typ="safe", pure=True).load_all(done.stdout) if found]

    return render


@pytest.fixture(scope="session")
def refusal(helm: Helm) -> Callable[..., str]:
    """What Helm says of values that it does not take."""

    def refusal(**values: Any) -> str:
        done = helm.template(values)
        assert done.returncode != 0, done.stdout
        return done.stderr

    return refusal


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"
