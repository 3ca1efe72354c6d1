"""The subcommands of `drahealth binaries`."""

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


@app.command("ensure")
def binaries_ensure(kubernetes: Kubernetes = None) -> None:
    """Get the binaries of a release. If they are not in the cache, download them, or build them with Go."""
    from drahealth.suites.targets.kubelet.binaries.listing import ensure_binaries

    ensure_binaries(kubernetes)


@app.command("helm")
def binaries_helm() -> None:
    """Get Helm, for the tests of the chart. If Helm is not in the cache, download it, or build it with Go."""
    from drahealth.suites.targets.kubelet.binaries.listing import ensure_helm

    ensure_helm()


@app.command("list")
def binaries_list() -> None:
    """List the releases in the cache."""
    from drahealth.suites.targets.kubelet.binaries.listing import show_binaries

    show_binaries()


@app.command("remove")
def binaries_remove(
    kubernetes: Annotated[str, typer.Argument(help=f"The release, such as {DEFAULT_VERSION}, or `helm`.")],
) -> None:
    """Remove a release, or Helm, from the cache."""
    from drahealth.suites.targets.kubelet.binaries.listing import remove_binaries

    remove_binaries(kubernetes)
