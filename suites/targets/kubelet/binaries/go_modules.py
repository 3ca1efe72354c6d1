"""The text of a go.mod and the command line of a build: pure functions over published modules.

Kubernetes is published as a module whose go.mod replaces its staging modules by folders of its repository. This module
uses their published versions instead: v0.X.Y for release v1.X.Y.
"""

import re
from dataclasses import dataclass

from drahealth.suites.targets.kubelet.binaries.releases import Package

_STAGING = re.compile(r"^\s*(k8s\.io/\S+)\s+=>\s+\./staging/", re.MULTILINE)
_GO_LINE = re.compile(r"^go\s+(\d+\.\d+(?:\.\d+)?)\s*$", re.MULTILINE)
_GO_VERSION = re.compile(r"go(\d+)\.(\d+)(?:\.(\d+))?")
_SWITCHES_SINCE = (1, 21, 0)
_MODULES = {
    "kubernetes": "k8s.io/kubernetes",
    "kubectl": "k8s.io/kubernetes",
    "etcd": "go.etcd.io/etcd/server/v3",
    "helm": "helm.sh/helm/v4",
    "dra-test-driver": "k8s.io/kubernetes",
    "sample-device-plugin": "k8s.io/kubernetes",
}
_FOLDERS = {
    "dra-test-driver": "test/e2e/dra/test-driver",
    "sample-device-plugin": "test/images/sample-device-plugin",
}


@dataclass(frozen=True, slots=True)
class Module:
    """The published module of a package, the Go packages of its programs, and the answer of the proxy."""

    path: str
    version: str
    go_mod: str
    built_at: str

    @property
    def minimum_go(self) -> str:
        """The release of Go that the module needs, such as 1.26.0."""
        match = _GO_LINE.search(self.go_mod)
        return match[1] if match else "1.21"


def module_path(package: Package) -> str:
    """The module with the programs of the package."""
    return _MODULES[package.project]


def program_path(package: Package, program: str) -> str:
    """The Go package of one program."""
    module = module_path(package)
    return module if package.project == "etcd" else f"{module}/{_FOLDERS.get(package.project, f'cmd/{program}')}"


def go_mod(module: Module) -> str:
    """A go.mod that builds the module's programs from published modules only."""
    staging = "v0." + module.version.removeprefix("v").split(".", 1)[1]
    lines = ["module drahealth.local/build", f"go {module.minimum_go}", f"require {module.path} {module.version}"]
    lines += [f"replace {name} => {name} {staging}" for name in _STAGING.findall(module.go_mod)]
    return "\n".join(lines) + "\n"


def linker_flags(package: Package, module: Module) -> str:
    """Strips the programs and sets the version of Kubernetes, without which its components reject each other."""
    if package.project == "etcd":
        return "-s -w"
    if package.project == "helm":
        return f"-s -w -X {module.path}/internal/version.version=v{package.version}"
    major, minor, _ = package.version.split(".", 2)
    facts = {
        "gitVersion": f"v{package.version}",
        "gitMajor": major,
        "gitMinor": minor,
        "gitTreeState": "clean",
        "buildDate": module.built_at,
    }
    packages = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
    return " ".join(["-s -w", *(f"-X {where}.{name}={value}" for where in packages for name, value in facts.items())])


def too_old(running: str, policy: str, minimum: str) -> bool:
    """Whether a Go toolchain can neither build for `minimum` nor fetch one that can.

    `running` is what `go env GOVERSION` prints, `policy` GOTOOLCHAIN. A development version counts as new enough.
    """
    found, needed = _numbers(running), _numbers(f"go{minimum}")
    if found is None or needed is None or found >= needed:
        return False
    return found < _SWITCHES_SINCE or not (policy in ("auto", "path") or policy.endswith(("+auto", "+path")))


def _numbers(version: str) -> tuple[int, int, int] | None:
    match = _GO_VERSION.match(version)
    return None if match is None else (int(match[1]), int(match[2]), int(match[3] or 0))
