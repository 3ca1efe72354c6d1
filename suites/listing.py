"""The command's lists: scenarios, the machine's fitness, and the binaries in the cache."""

import asyncio

from rich.console import Console
from rich.markup import escape

from drahealth.suites.binaries import ensure as binaries
from drahealth.suites.binaries.releases import DEFAULT_VERSION
from drahealth.suites.catalogue import scenarios
from drahealth.suites.ledger import requirements
from drahealth.suites.local.doctor import examine
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
    console = Console(highlight=False)
    able = True
    for check in examine(start=start, progress=Stages(Console(stderr=True, highlight=False))):
        able &= check.ok or not check.needed
        mark = "[green]ok  [/]" if check.ok else ("[red]no  [/]" if check.needed else "[yellow]note[/]")
        console.print(f"{mark} [bold]{check.name}[/]: {escape(check.found)}", soft_wrap=True)
        if check.hint:
            console.print(f"       {escape(check.hint)}", soft_wrap=True)
    where = "the reference and a real kubelet" if able else "the reference, but no real kubelet"
    console.print(f"\nThis machine can run {where}.")
    return 0 if able else 3


def clean_up(*, kept: bool) -> None:
    """Removes what interrupted runs left, and says what that was."""
    from drahealth.suites.kind.ownership import clean

    console = Console(highlight=False)
    for line in asyncio.run(clean(kept, Stages(Console(stderr=True, highlight=False)))):
        console.print(escape(line), soft_wrap=True)


def ensure_binaries(kubernetes: str | None) -> None:
    """Gets them and says where they are."""
    console = Console(highlight=False, stderr=True)
    found = binaries.ensure(kubernetes or DEFAULT_VERSION, Stages(console))
    for path in (found.kubelet, found.kube_apiserver, found.kube_scheduler, found.kube_controller_manager, found.etcd):
        Console(highlight=False).print(str(path), soft_wrap=True)


def show_binaries() -> None:
    """The releases in the cache, with size, origin and place."""
    console = Console(highlight=False)
    for entry in binaries.installed():
        console.print(f"[bold]{entry.version}[/]  {entry.size // _MIB} MiB  {entry.folder}", soft_wrap=True)
        console.print(f"       {escape(', '.join(entry.origins))}", soft_wrap=True)


def remove_binaries(kubernetes: str) -> None:
    """Removes a release and says how much room that made."""
    freed = binaries.remove(kubernetes)
    Console(highlight=False).print(f"removed Kubernetes {kubernetes}, {freed // _MIB} MiB")
