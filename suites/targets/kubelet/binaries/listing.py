"""The work of `drahealth binaries`: it gets, lists and removes the binaries in the cache."""

from rich.console import Console
from rich.markup import escape

from drahealth.manager.releases import DEFAULT_VERSION
from drahealth.suites.targets.kubelet.binaries import ensure as binaries
from drahealth.suites.targets.kubelet.binaries.store import HELM
from drahealth.suites.targets.progress import StagePrinter
from drahealth.suites.targets.versions import parse_version, profile_of

_MIB = 1024 * 1024


def ensure_binaries(kubernetes: str | None) -> None:
    """Download the binaries if needed, and print their paths. Raises ConfigurationError for an unsupported release."""
    version = parse_version(kubernetes or DEFAULT_VERSION)
    profile_of(version)  # before a download or a build of minutes
    found = binaries.ensure(version, StagePrinter(Console(highlight=False, stderr=True)))
    for path in (found.kubelet, found.kube_apiserver, found.kube_scheduler, found.kube_controller_manager, found.etcd):
        Console(highlight=False).print(str(path), soft_wrap=True)


def ensure_helm() -> None:
    """Download Helm if needed, and print its path."""
    path = binaries.ensure_helm(StagePrinter(Console(highlight=False, stderr=True)))
    Console(highlight=False).print(str(path), soft_wrap=True)


def show_binaries() -> None:
    """Print the releases in the cache, with size, source and folder."""
    console = Console(highlight=False)
    named = [(entry.version, entry) for entry in binaries.installed()]
    named += [(f"helm {entry.version}", entry) for entry in binaries.installed_helm()]
    for name, entry in named:
        console.print(f"[bold]{name}[/]  {entry.size // _MIB} MiB  {entry.folder}", soft_wrap=True)
        console.print(f"       {escape(', '.join(entry.origins))}", soft_wrap=True)


def remove_binaries(kubernetes: str) -> None:
    """Remove a release, or Helm, and print the freed space."""
    version = kubernetes if kubernetes == HELM else parse_version(kubernetes)
    freed = binaries.remove(version)
    what = "Helm" if version == HELM else f"Kubernetes {version}"
    Console(highlight=False).print(f"removed {what}, {freed // _MIB} MiB")
