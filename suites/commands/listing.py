"""The command's lists: scenarios, the machine's fitness, and the binaries in the cache."""

import asyncio
from collections.abc import Iterator

from rich.console import Console
from rich.markup import escape

from drahealth.suites.errors import ConfigurationError
from drahealth.suites.judging.ledger import requirements
from drahealth.suites.run.catalogue import scenarios
from drahealth.suites.run.stages import Stages
from drahealth.suites.targets.checks import Check
from drahealth.suites.targets.kubelet.binaries import ensure as binaries
from drahealth.suites.targets.kubelet.binaries.releases import DEFAULT_VERSION
from drahealth.suites.targets.kubelet.node.doctor import examine

_MIB = 1024 * 1024
_EXAMINED = {"kubelet": "a real kubelet", "kind": "a kind cluster"}


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


def show_doctor(*, target: str | None, kubernetes: str | None, image: str | None, start: bool) -> int:
    """What can run here; 3 if the target cannot, or none but the reference. Raises ConfigurationError."""
    if target not in (None, *_EXAMINED):
        raise ConfigurationError(f"there is nothing to examine for a target {target!r}", "choose kubelet or kind")
    if start and target == "kind":
        raise ConfigurationError("--start starts a node of the kubelet target", "leave it out, or --target")
    if image and target == "kubelet":
        raise ConfigurationError("--image is for the kind target", "leave it out, or --target")
    console = Console(highlight=False)
    can, cannot = ["the reference"], list[str]()
    for name in [target] if target else _EXAMINED:
        console.print(f"[bold]{_EXAMINED[name]}[/]")
        able = True
        for check in _checks(name, kubernetes, image, start):
            able &= _show(console, check)
        (can if able else cannot).append(_EXAMINED[name])
        console.print()
    missing = f" It cannot run {', '.join(cannot)}." if cannot else ""
    console.print(f"This machine can run {', '.join(can)}.{missing}", soft_wrap=True)
    return 0 if len(can) > 1 else 3


def _checks(target: str, kubernetes: str | None, image: str | None, start: bool) -> Iterator[Check]:
    if target == "kind":
        from drahealth.suites.targets.kind.cluster.doctor import examine as examine_kind

        return examine_kind(kubernetes, image)
    return examine(kubernetes or DEFAULT_VERSION, start=start, progress=Stages(Console(stderr=True, highlight=False)))


def _show(console: Console, check: Check) -> bool:
    """Shows it, and says whether the target can run as far as this goes."""
    mark = "[green]ok  [/]" if check.ok else ("[red]no  [/]" if check.needed else "[yellow]note[/]")
    console.print(f"{mark} [bold]{check.name}[/]: {escape(check.found)}", soft_wrap=True)
    if check.hint:
        console.print(f"       {escape(check.hint)}", soft_wrap=True)
    return check.ok or not check.needed


def clean_up(*, kept: bool) -> None:
    """Removes what interrupted runs left, and says what that was."""
    from drahealth.suites.targets.kind.cluster.ownership import clean

    console = Console(highlight=False)
    for line in asyncio.run(clean(kept, Stages(Console(stderr=True, highlight=False)))):
        console.print(escape(line), soft_wrap=True)


def ensure_binaries(kubernetes: str | None) -> None:
    """Gets them and says where they are."""
    console = Console(highlight=False, stderr=True)
    found = binaries.ensure(kubernetes or DEFAULT_VERSION, Stages(console))
    for path in (found.kubelet, found.kube_apiserver, found.kube_scheduler, found.kube_controller_manager, found.etcd):
        Console(highlight=False).print(str(path), soft_wrap=True)


def ensure_helm() -> None:
    """Gets it and says where it is."""
    path = binaries.ensure_helm(Stages(Console(highlight=False, stderr=True)))
    Console(highlight=False).print(str(path), soft_wrap=True)


def show_binaries() -> None:
    """The releases in the cache, with size, origin and place."""
    console = Console(highlight=False)
    named = [(entry.version, entry) for entry in binaries.installed()]
    named += [(f"helm {entry.version}", entry) for entry in binaries.installed_helm()]
    for name, entry in named:
        console.print(f"[bold]{name}[/]  {entry.size // _MIB} MiB  {entry.folder}", soft_wrap=True)
        console.print(f"       {escape(', '.join(entry.origins))}", soft_wrap=True)


def remove_binaries(kubernetes: str) -> None:
    """Removes a release, or Helm, and says how much room that made."""
    freed = binaries.remove(kubernetes)
    what = "Helm" if kubernetes == "helm" else f"Kubernetes {kubernetes}"
    Console(highlight=False).print(f"removed {what}, {freed // _MIB} MiB")
