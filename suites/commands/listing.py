"""The lists that the command prints: the scenarios, the binaries in the cache, and what `clean` removed."""

from rich.console import Console
from rich.markup import escape

from drahealth.suites.judging.ledger import requirements
from drahealth.suites.run.catalogue import scenarios
from drahealth.suites.run.progress import StagePrinter
from drahealth.suites.targets import registry, run_directory
from drahealth.suites.targets.kubelet.binaries import ensure as binaries
from drahealth.suites.targets.kubelet.binaries.releases import DEFAULT_VERSION

_MIB = 1024 * 1024


def show_scenarios() -> None:
    """Print all scenarios with the sentences of their requirements."""
    console = Console(highlight=False)
    ledger = requirements()
    for scenario in scenarios():
        console.print(f"[bold]{scenario.name}[/]", soft_wrap=True)
        for name in scenario.requirements:
            console.print(
                f"  [cyan]{name:11}[/] [dim]{ledger[name].level:6}[/] {ledger[name].sentence}", soft_wrap=True
            )


def clean_up(*, kept: bool) -> None:
    """Remove files and clusters of interrupted runs, and print their names. `kept`: also those of --keep."""
    console = Console(highlight=False)
    progress = StagePrinter(Console(stderr=True, highlight=False))
    removed = [f"removed the run folder {path}" for path in run_directory.sweep(run_directory.default_base())]
    left = list[str]()
    for clean in (target.clean for target in registry.definitions() if target.clean):
        gone, stays = clean(kept, progress)
        removed += gone
        left += stays
    for line in (*(removed or ["nothing to clean"]), *left):
        console.print(escape(line), soft_wrap=True)


def ensure_binaries(kubernetes: str | None) -> None:
    """Download the binaries if needed, and print their paths."""
    console = Console(highlight=False, stderr=True)
    found = binaries.ensure(kubernetes or DEFAULT_VERSION, StagePrinter(console))
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
    freed = binaries.remove(kubernetes)
    what = "Helm" if kubernetes == "helm" else f"Kubernetes {kubernetes}"
    Console(highlight=False).print(f"removed {what}, {freed // _MIB} MiB")
