"""The subcommands about this machine: which targets it can run, the cached binaries, and what interrupted runs left."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.text import Text

from drahealth.fakes.program.console import print_line
from drahealth.fakes.program.usage import CommandGroup, as_called
from drahealth.manager.releases import DEFAULT_VERSION, VERSIONS_TEXT
from drahealth.suites.errors import ConfigurationError
from drahealth.suites.targets import registry, run_directory
from drahealth.suites.targets.option import Values
from drahealth.suites.targets.progress import StagePrinter
from drahealth.suites.targets.registry import Check, TargetDefinition

if TYPE_CHECKING:
    from drahealth.suites.targets.cluster.options import ClusterOptions

app = typer.Typer()


@app.command()
def clean(
    kept: Annotated[bool, typer.Option("--kept", help="Also remove the clusters that a run with --keep kept.")] = False,
    target: Annotated[
        str | None,
        typer.Option(metavar="cluster", help="With `cluster`: also remove what runs left in the cluster."),
    ] = None,
    kubeconfig: Annotated[
        str | None, typer.Option(metavar="FILE", help="With --target cluster: as for `drahealth run`.")
    ] = None,
    context: Annotated[
        str | None, typer.Option(metavar="NAME", help="With --target cluster: as for `drahealth run`.")
    ] = None,
) -> None:
    """Remove the directories and the kind clusters that interrupted runs of drahealth left."""
    console = Console(highlight=False)
    progress = StagePrinter(Console(stderr=True, highlight=False))
    in_cluster = _left_in_cluster(target, {"kubeconfig": kubeconfig, "context": context}, progress)
    removed = in_cluster + [
        f"removed the run folder {path}" for path in run_directory.sweep(run_directory.default_base())
    ]
    left = list[str]()
    for clean in (target.clean for target in registry.definitions() if target.clean):
        gone, stays = clean(kept, progress)
        removed += gone
        left += stays
    for line in (*(removed or ["nothing to clean"]), *left):
        console.print(escape(line), soft_wrap=True)


def _left_in_cluster(target: str | None, given: Mapping[str, str | None], progress: StagePrinter) -> list[str]:
    """Removes what runs left in the cluster, if that was asked for. Returns lines for people."""
    if target is None:
        if unused := next((name for name, value in given.items() if value), None):
            raise ConfigurationError(f"--{unused} needs --target cluster", "add it")
        return []
    if target != "cluster":
        raise ConfigurationError(f"--target must be cluster, got {target!r}", "the others need no --target")
    from drahealth.suites.targets.cluster.target import clean

    return [f"removed the namespace {name}" for name in clean(_cluster_options(given), progress)]


def _cluster_options(given: Mapping[str, str | None]) -> "ClusterOptions":
    from drahealth.suites.targets.cluster.options import ClusterOptions

    return ClusterOptions.of(registry.values(registry.definition("cluster"), "run", given))


def show_plan(given: Mapping[str, str | None]) -> int:
    """Prints what a run on a cluster would do. Returns the exit code: 3 if a permission is missing.

    Raises ConfigurationError for another target.
    """
    if given.get("target") != "cluster":
        raise ConfigurationError("--plan is for --target cluster", "the other targets change nothing of others")
    from drahealth.suites.targets.cluster.target import plan

    lines, may = plan(_cluster_options(given))
    console = Console(highlight=False)
    for line in lines:
        console.print(escape(line), soft_wrap=True)
    return 0 if may else 3


binaries = typer.Typer(
    name="binaries",
    cls=CommandGroup,
    help="Manage the Kubernetes binaries of the kubelet target.",
    no_args_is_help=True,
)
app.add_typer(binaries)

Kubernetes = Annotated[
    str | None,
    typer.Option(metavar="VERSION", help=f"Kubernetes release, {VERSIONS_TEXT}."),
]
_MIB = 1024 * 1024


@binaries.command("ensure")
def binaries_ensure(kubernetes: Kubernetes = None) -> None:
    """Get the binaries of a release. If they are not in the cache, download them, or build them with Go."""
    from drahealth.suites.targets.kubelet.ensure import ensure
    from drahealth.suites.targets.versions import parse_version, profile_of

    version = parse_version(kubernetes or DEFAULT_VERSION)
    profile_of(version)  # before a download or a build of minutes
    found = ensure(version, StagePrinter(Console(highlight=False, stderr=True)))
    for path in (found.kubelet, found.kube_apiserver, found.kube_scheduler, found.kube_controller_manager, found.etcd):
        Console(highlight=False).print(str(path), soft_wrap=True)


@binaries.command("helm")
def binaries_helm() -> None:
    """Get Helm, for the tests of the chart. If Helm is not in the cache, download it, or build it with Go."""
    from drahealth.suites.targets.kubelet.ensure import ensure_helm

    path = ensure_helm(StagePrinter(Console(highlight=False, stderr=True)))
    Console(highlight=False).print(str(path), soft_wrap=True)


@binaries.command("list")
def binaries_list() -> None:
    """List the releases in the cache."""
    from drahealth.suites.targets.kubelet.ensure import installed, installed_helm

    console = Console(highlight=False)
    named = [(entry.version, entry) for entry in installed()]
    named += [(f"helm {entry.version}", entry) for entry in installed_helm()]
    for name, entry in named:
        console.print(f"[bold]{name}[/]  {entry.size // _MIB} MiB  {entry.folder}", soft_wrap=True)
        console.print(f"       {escape(', '.join(entry.origins))}", soft_wrap=True)


@binaries.command("remove")
def binaries_remove(
    kubernetes: Annotated[str, typer.Argument(help=f"The release, such as {DEFAULT_VERSION}, or `helm`.")],
) -> None:
    """Remove a release, or Helm, from the cache."""
    from drahealth.suites.targets.kubelet.binaries import HELM
    from drahealth.suites.targets.kubelet.ensure import remove
    from drahealth.suites.targets.versions import parse_version

    version = kubernetes if kubernetes == HELM else parse_version(kubernetes)
    freed = remove(version)
    what = "Helm" if version == HELM else f"Kubernetes {version}"
    Console(highlight=False).print(f"removed {what}, {freed // _MIB} MiB")


# `drahealth doctor`: which targets can run on this machine, and why not.


def show_doctor(given: Mapping[str, str | None]) -> int:
    """Examines the target that is given, or all. Returns the exit code: 3 if none of them can run.

    Raises ConfigurationError for a wrong option.
    """
    chosen = _chosen(given.get("target"))
    registry.refuse_others(chosen, "doctor", given)
    values = [Values(given, target.options_of("doctor")) for target in chosen]
    console = Console(highlight=False)
    able = [target.title for target in registry.definitions() if not target.examine]
    unable = list[str]()
    fits = False
    for target, options in zip(chosen, values, strict=True):
        can = _examine(console, target, options)
        (able if can else unable).append(target.title)
        fits |= can
    missing = f" It cannot run {', '.join(unable)}." if unable else ""
    print_line(console, Text(f"This machine can run {', '.join(able)}.{missing}"))
    return 0 if fits else 3


def _chosen(name: str | None) -> list[TargetDefinition]:
    """The target with this name, or all that have checks. Raises ConfigurationError."""
    found = [target for target in registry.definitions() if target.examine]
    if not name:
        return found
    checked = [target.name for target in found]
    if name not in registry.FOLDERS:
        raise ConfigurationError(f"--target must be one of {', '.join(checked)}, got {name!r}")
    target = registry.definition(name)
    if not target.examine:
        raise ConfigurationError(
            f"--target {name} has nothing to check, because it needs only Python",
            f"pass --target {' or '.join(checked)}",
        )
    return [target]


def _examine(console: Console, target: TargetDefinition, values: Values) -> bool:
    """Shows the checks of a target. Returns whether it can run here."""
    assert target.examine
    console.print(f"[bold]{target.title}[/]")
    progress = StagePrinter(Console(stderr=True, highlight=False))
    can = True
    for check in target.examine(values, progress):
        can &= _show(console, check)
    console.print()
    return can


def _show(console: Console, check: Check) -> bool:
    """Shows a check. Returns whether the target can run as far as this goes."""
    mark = "[green]ok  [/]" if check.ok else ("[red]no  [/]" if check.needed else "[yellow]note[/]")
    print_line(console, Text.from_markup(f"{mark} [bold]{check.name}[/]: {escape(as_called(check.found))}"))
    if check.hint:
        print_line(console, Text(f"       {as_called(check.hint)}"))
    return check.ok or not check.needed
