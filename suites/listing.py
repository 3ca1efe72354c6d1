"""The command's lists: scenarios, the machine's fitness, and the binaries in the cache."""

from rich.console import Console
from rich.table import Table

from drahealth.suites.catalogue import scenarios
from drahealth.suites.ledger import requirements
from drahealth.suites.local import binaries
from drahealth.suites.local.doctor import examine
from drahealth.suites.options import KUBERNETES
from drahealth.suites.stages import Stages

_MIB = 1024 * 1024


def show_scenarios() -> None:
    """Every scenario and the sentences of the requirements that it judges."""
    console = Console(highlight=False)
    ledger = requirements()
    for scenario in scenarios():
        console.print(f"[bold]{scenario.name}[/]", soft_wrap=True)
        for name in scenario.requirements:
            console.print(
                f"  [cyan]{name:11}[/] [dim]{ledger[name].level:6}[/] {ledger[name].sentence}", soft_wrap=True
            )


def show_doctor(*, start: bool) -> int:
    """What can run here; 3 if the kubelet target cannot."""
    checks = examine(start=start)
    table = Table("", "check", "found", "what to do", box=None, pad_edge=False)
    for check in checks:
        table.add_row("[green]ok[/]" if check.ok else "[red]no[/]", check.name, check.found, check.hint)
    Console(highlight=False).print(table)
    return 0 if all(check.ok or not check.needed for check in checks) else 3


def ensure_binaries(kubernetes: str | None) -> None:
    """Gets them and says where they are."""
    console = Console(highlight=False, stderr=True)
    found = binaries.ensure(kubernetes or KUBERNETES, Stages(console))
    for path in (found.kubelet, found.kube_apiserver, found.kube_scheduler, found.kube_controller_manager, found.etcd):
        Console(highlight=False).print(str(path), soft_wrap=True)


def show_binaries() -> None:
    """The releases in the cache, with size and place."""
    table = Table("release", "MiB", "from", "folder", box=None, pad_edge=False)
    for entry in binaries.installed():
        table.add_row(entry.version, str(entry.size // _MIB), ", ".join(entry.origins), str(entry.folder))
    Console(highlight=False).print(table)


def remove_binaries(kubernetes: str) -> None:
    """Removes a release and says how much room that made."""
    freed = binaries.remove(kubernetes)
    Console(highlight=False).print(f"removed Kubernetes {kubernetes}, {freed // _MIB} MiB")
