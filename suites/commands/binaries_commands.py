"""`drahealth binaries`: it gets, lists and removes the binaries in the cache."""

from typing import Annotated

import typer

from drahealth.fakes.program.usage import CommandGroup
from drahealth.manager.releases import DEFAULT_VERSION, VERSIONS_TEXT

app = typer.Typer(
    name="binaries",
    cls=CommandGroup,
    help="Manage the Kubernetes binaries of the kubelet target.",
    no_args_is_help=True,
)

Kubernetes = Annotated[
    str | None,
    typer.Option(metavar="VERSION", help=f"Kubernetes release, {VERSIONS_TEXT}."),
]
_MIB = 1024 * 1024


@app.command("ensure")
def binaries_ensure(kubernetes: Kubernetes = None) -> None:
    """Get the binaries of a release. If they are not in the cache, download them, or build them with Go."""
    from rich.console import Console

    from drahealth.suites.targets.kubelet.ensure import ensure
    from drahealth.suites.targets.progress import StagePrinter
    from drahealth.suites.targets.versions import parse_version, profile_of

    version = parse_version(kubernetes or DEFAULT_VERSION)
    profile_of(version)  # before a download or a build of minutes
    found = ensure(version, StagePrinter(Console(highlight=False, stderr=True)))
    for path in (found.kubelet, found.kube_apiserver, found.kube_scheduler, found.kube_controller_manager, found.etcd):
        Console(highlight=False).print(str(path), soft_wrap=True)


@app.command("helm")
def binaries_helm() -> None:
    """Get Helm, for the tests of the chart. If Helm is not in the cache, download it, or build it with Go."""
    from rich.console import Console

    from drahealth.suites.targets.kubelet.ensure import ensure_helm
    from drahealth.suites.targets.progress import StagePrinter

    path = ensure_helm(StagePrinter(Console(highlight=False, stderr=True)))
    Console(highlight=False).print(str(path), soft_wrap=True)


@app.command("list")
def binaries_list() -> None:
    """List the releases in the cache."""
    from rich.console import Console
    from rich.markup import escape

    from drahealth.suites.targets.kubelet.ensure import installed, installed_helm

    console = Console(highlight=False)
    named = [(entry.version, entry) for entry in installed()]
    named += [(f"helm {entry.version}", entry) for entry in installed_helm()]
    for name, entry in named:
        console.print(f"[bold]{name}[/]  {entry.size // _MIB} MiB  {entry.folder}", soft_wrap=True)
        console.print(f"       {escape(', '.join(entry.origins))}", soft_wrap=True)


@app.command("remove")
def binaries_remove(
    kubernetes: Annotated[str, typer.Argument(help=f"The release, such as {DEFAULT_VERSION}, or `helm`.")],
) -> None:
    """Remove a release, or Helm, from the cache."""
    from rich.console import Console

    from drahealth.suites.targets.kubelet.binaries import HELM
    from drahealth.suites.targets.kubelet.ensure import remove
    from drahealth.suites.targets.versions import parse_version

    version = kubernetes if kubernetes == HELM else parse_version(kubernetes)
    freed = remove(version)
    what = "Helm" if version == HELM else f"Kubernetes {version}"
    Console(highlight=False).print(f"removed {what}, {freed // _MIB} MiB")
