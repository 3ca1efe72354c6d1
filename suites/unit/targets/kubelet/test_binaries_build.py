"""Builds with Go: its commands, and its errors. `go` is a script here."""

from collections.abc import Callable
from pathlib import Path

import pytest

from drahealth.suites.errors import ConfigurationError, HarnessError
from drahealth.suites.targets.kubelet.binaries import (
    Order,
    Platform,
    Unavailable,
    dra_test_driver,
    etcd,
    helm,
    kubernetes,
)
from drahealth.suites.targets.kubelet.sources import (
    GoBuild,
    Module,
    go_mod,
    linker_flags,
    module_path,
    program_path,
    toolchain,
)
from drahealth.suites.targets.progress import silent

GO_MOD = """module k8s.io/kubernetes

go 1.26.0

replace (
\tk8s.io/api => ./staging/src/k8s.io/api
\tk8s.io/kubelet => ./staging/src/k8s.io/kubelet
\texample.com/other => example.com/fork v1.0.0
)
"""

SCRIPT = """#!/bin/sh
echo "$@" >> {folder}/calls
case "$1 $2" in
  "env "*) case "$GOTOOLCHAIN" in go1*) {fetch} ;; *) echo "{version}" ;; esac ;;
  "mod download") cat {folder}/answer; exit {download} ;;
  "get "*) ;;
  "build "*) {build} ;;
esac
"""


@pytest.fixture
def go(tmp_path: Path) -> Callable[..., str]:
    """Makes a `go` that answers as told, and gives its path."""

    def make(version: str = "go1.26.8", error: str = "", build: str = "exit 0", fetch: str = "exit 1") -> str:
        (tmp_path / "go.mod").write_text(GO_MOD)
        (tmp_path / "info").write_text('{"Time": "2026-09-23T17:06:22Z"}')
        answer = f'{{"Error": "{error}"}}' if error else f'{{"GoMod": "{tmp_path}/go.mod", "Info": "{tmp_path}/info"}}'
        (tmp_path / "answer").write_text(answer)
        script = tmp_path / "go"
        values = {"version": version, "fetch": fetch, "download": int(bool(error)), "build": build}
        script.write_text(SCRIPT.format(folder=tmp_path, **values))
        script.chmod(0o755)
        return str(script)

    return make


@pytest.fixture
def order(tmp_path: Path) -> Order:
    for name in ("files", "scratch"):
        (tmp_path / name).mkdir()
    package = kubernetes("1.37.1")
    return Order(package, package.programs, Platform("linux", "amd64"), tmp_path / "files", tmp_path / "scratch")


def test_the_programs_are_built_from_the_published_modules(go: Callable[..., str], order: Order) -> None:
    assert GoBuild(go()).get(order, silent) == "built with go1.26.8 from k8s.io/kubernetes@v1.37.1"
    build = (order.scratch.parent / "calls").read_text().splitlines()[-1]
    assert build.startswith("build -trimpath -ldflags -s -w -X k8s.io/component-base/version.gitVersion=v1.37.1 ")
    assert build.endswith(f"-o {order.into}/ " + " ".join(f"k8s.io/kubernetes/cmd/{name}" for name in order.programs))


def test_the_staging_modules_are_replaced_by_their_published_versions() -> None:
    module = Module("k8s.io/kubernetes", "v1.37.1", GO_MOD, "")
    assert go_mod(module).splitlines()[1:] == [
        "go 1.26.0",
        "require k8s.io/kubernetes v1.37.1",
        "replace k8s.io/api => k8s.io/api v0.37.1",
        "replace k8s.io/kubelet => k8s.io/kubelet v0.37.1",
    ]


def test_etcd_needs_no_version_from_the_linker() -> None:
    assert linker_flags(etcd(), Module("go.etcd.io/etcd/server/v3", "v3.6.5", "", "")) == "-s -w"


def test_helm_is_built_with_its_version() -> None:
    package = helm("4.3.1")
    module = Module(module_path(package), "v4.3.1", "", "")
    assert program_path(package, "helm") == "helm.sh/helm/v4/cmd/helm"
    assert linker_flags(package, module) == "-s -w -X helm.sh/helm/v4/internal/version.version=v4.3.1"


def test_the_test_driver_is_a_program_of_kubernetes() -> None:
    path = program_path(dra_test_driver("1.37.1"), "dra-test-driver")
    assert path == "k8s.io/kubernetes/test/e2e/dra/test-driver"


def test_an_unknown_release_is_a_configuration_error(go: Callable[..., str], order: Order) -> None:
    with pytest.raises(
        ConfigurationError, match=r"Kubernetes v1\.37\.1 is not a published Go module .*unknown revision"
    ):
        GoBuild(go(error="unknown revision v1.37.1")).get(order, silent)


def test_without_a_module_proxy_the_source_is_unavailable(go: Callable[..., str], order: Order) -> None:
    with pytest.raises(Unavailable, match="proxy cannot be reached"):
        GoBuild(go(error="dial tcp: lookup proxy.example.com: no such host")).get(order, silent)


def test_error_for_an_old_go_names_the_required_version(go: Callable[..., str], order: Order) -> None:
    with pytest.raises(Unavailable, match=r"go1\.20\.3 is too old .*needs Go 1\.26\.0.*install Go 1\.26\.0 or newer"):
        GoBuild(go(version="go1.20.3")).get(order, silent)


def test_an_old_go_builds_with_the_toolchain_that_the_module_needs(go: Callable[..., str], order: Order) -> None:
    used = 'echo "$GOTOOLCHAIN" > "$(dirname "$0")/used"'
    old = go(version="go1.25.3", fetch='echo "$GOTOOLCHAIN"', build=used)
    assert GoBuild(old).get(order, silent) == "built with go1.26.0 from k8s.io/kubernetes@v1.37.1"
    assert (order.scratch.parent / "used").read_text() == "go1.26.0\n"


def test_a_toolchain_that_cannot_be_fetched_is_named(go: Callable[..., str], order: Order) -> None:
    old = go(version="go1.25.3", fetch="echo toolchain not available >&2; exit 1")
    with pytest.raises(Unavailable, match=r"go1\.25\.3 is too old .*, and go1\.26\.0 cannot be fetched: toolchain not"):
        GoBuild(old).get(order, silent)


def test_without_go_the_source_is_unavailable(order: Order) -> None:
    with pytest.raises(Unavailable, match="there is no Go toolchain"):
        GoBuild("no-such-go").get(order, silent)


def test_a_failed_build_shows_its_last_line(go: Callable[..., str], order: Order) -> None:
    broken = go(build="echo go: downloading x >&2; echo write: no space left on device >&2; exit 1")
    with pytest.raises(HarnessError, match=r"cannot build .*: write: no space left on device"):
        GoBuild(broken).get(order, silent)


def test_a_long_build_shows_the_seconds(go: Callable[..., str], order: Order) -> None:
    told: list[str] = []
    GoBuild(go(build="sleep 2.1")).get(order, lambda stage, done=None, total=None: told.append(stage))
    compiling = [stage for stage in told if stage.startswith("Compiling")]
    assert [stage.rsplit("(")[-1] for stage in compiling] == ["0 s)", "2 s)"]


@pytest.mark.parametrize(
    ("running", "minimum", "chosen"),
    [
        ("go1.26.0", "1.26.0", "local"),
        ("go1.26.8", "1.26.0", "local"),
        ("go1.26.8", "1.27.0", "go1.27.0"),
        ("go1.26.8", "1.27", "go1.27.0"),
        ("go1.20.5", "1.26.0", None),  # knows no other toolchains
        ("devel go1.27-abc", "1.28.0", "local"),
    ],
)
def test_the_toolchain_is_that_of_the_machine_if_it_is_new_enough(
    running: str, minimum: str, chosen: str | None
) -> None:
    assert toolchain(running, minimum) == chosen
