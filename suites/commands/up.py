"""The subcommands for nodes that stay: `up`, `status`, `down`, `logs`, `load` and `kubectl`. They import little."""

from pathlib import Path
from typing import Annotated

import typer

from drahealth.fakes.control.socket_path import DEFAULT_NODE
from drahealth.manager.releases import DEFAULT_VERSION, VERSIONS_TEXT
from drahealth.suites.fleet.topology import NODES_PER_RACK

app = typer.Typer()

_KUBECTL = {
    "ignore_unknown_options": True,
    "allow_extra_args": True,
    "allow_interspersed_args": False,  # keeps the `--` of `kubectl exec`
    "help_option_names": [],
}


def _nodes() -> list[str]:
    """The names of all nodes, for shell completion."""
    from drahealth.suites.up_command.node_folder import folders

    return [folder.name for folder in folders()]


Name = Annotated[str, typer.Option(metavar="NAME", help="Name of the node.", autocompletion=_nodes)]


@app.command("up")
def up(
    name: Name = DEFAULT_NODE,
    kubernetes: Annotated[
        str | None,
        typer.Option(metavar="VERSION", help=f"Kubernetes release, {VERSIONS_TEXT}; default: {DEFAULT_VERSION}."),
    ] = None,
    reference: Annotated[
        bool,
        typer.Option("--reference", help="Run the reference in place of Kubernetes. The reference starts in a second."),
    ] = False,
    inventory: Annotated[
        Path | None,
        typer.Option("-f", "--file", metavar="INVENTORY", help="Inventory of the fake devices; default: two GPUs."),
    ] = None,
    timeline: Annotated[Path | None, typer.Option(metavar="FILE", help="Timeline to play on the fake devices.")] = None,
    gates: Annotated[
        str | None,
        typer.Option(metavar="GATE=BOOL,...", help="Feature gates for all components."),
    ] = None,
    nodes: Annotated[
        int | None,
        typer.Option(
            metavar="NUMBER", help="Number of nodes of the control plane: NAME, NAME-2, NAME-3 and so on; default: 1."
        ),
    ] = None,
    fleet: Annotated[
        int | None,
        typer.Option(
            metavar="NUMBER",
            help="Number of hollow nodes beside the node: fleet-0, fleet-1 and so on, each with the fake devices, and "
            "without a kubelet. --timeline then plays on the fleet.",
        ),
    ] = None,
    nodes_per_rack: Annotated[
        int | None, typer.Option(metavar="NUMBER", help=f"Hollow nodes in a rack; default: {NODES_PER_RACK}.")
    ] = None,
    metrics_port: Annotated[
        int | None,
        typer.Option(
            metavar="PORT", help="Serve metrics of the fleet for Prometheus on 127.0.0.1; 0 selects a free port."
        ),
    ] = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="First remove the data of an earlier start of this node.")
    ] = False,
    foreground: Annotated[
        bool, typer.Option("--foreground", help="Run the node in this process. SIGTERM or Ctrl-C ends the node.")
    ] = False,
) -> None:
    """Start a Kubernetes node with fake devices on this machine, and leave it running.

    The command needs no root permissions and no container engine. If the data of an earlier start still exist, the node
    starts again with these data.
    Exit codes: 2 wrong usage, 3 error in the environment.
    """
    from drahealth.suites.up_command.options import UpOptions, gates_of
    from drahealth.suites.up_command.starting import run_up

    options = UpOptions(
        kubernetes,
        reference,
        inventory.absolute() if inventory else None,
        timeline.absolute() if timeline else None,
        None if gates is None else gates_of(gates),
        nodes,
        fleet,
        nodes_per_rack,
        metrics_port,
    )
    raise typer.Exit(run_up(name, options, fresh=fresh, foreground=foreground))


@app.command("status")
def status(
    name: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Show only this node.", show_default=False, autocompletion=_nodes),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show the nodes of `drahealth up`. Exit codes: 0 all shown nodes Ready, 1 a node not Ready, 2 unknown node."""
    from drahealth.suites.up_command.node_commands import show_statuses, status_of
    from drahealth.suites.up_command.node_folder import existing, folders

    statuses = [status_of(each) for each in ([existing(name)] if name else folders())]
    show_statuses(statuses, as_json=json)
    raise typer.Exit(int(any(one.phase != "ready" for one in statuses)))


@app.command("down")
def down(
    name: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help=f"Name of the node; default: {DEFAULT_NODE}.",
            show_default=False,
            autocompletion=_nodes,
        ),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Stop all nodes of this user.")] = False,
    keep: Annotated[bool, typer.Option("--keep", help="Keep the data of the node for the next start.")] = False,
) -> None:
    """Stop a node of `drahealth up`, and remove its data.

    With `up --nodes`, the first node ends all nodes, and another node ends alone.
    """
    from drahealth.fakes.program.errors import CommandError
    from drahealth.suites.up_command import node_commands
    from drahealth.suites.up_command.node_folder import existing, folders

    if every and name is not None:
        raise CommandError("--all and --name exclude each other; remove one of them")
    ended = list[str]()
    for folder in folders() if every else [existing(name or DEFAULT_NODE, to_remove=True)]:
        if folder.name in ended:  # with the first node of its control plane
            continue
        for each in node_commands.down(folder, keep=keep):
            ended.append(each)
            typer.echo(f"node {each} is {'stopped; its data stay' if keep else 'removed'}")


@app.command("logs")
def logs(
    component: Annotated[
        str | None,
        typer.Argument(
            help="Component, such as kubelet, kube-apiserver or driver. Default: print the names of all components.",
            show_default=False,
        ),
    ] = None,
    name: Name = DEFAULT_NODE,
    follow: Annotated[
        bool, typer.Option("-f", "--follow", help="Print new lines as they are written, until Ctrl-C.")
    ] = False,
    lines: Annotated[
        int | None,
        typer.Option("-n", "--lines", min=0, help="Print only this number of lines from the end of the log."),
    ] = None,
) -> None:
    """Print the log of a component of a node."""
    from drahealth.suites.up_command.node_commands import show_log
    from drahealth.suites.up_command.node_folder import existing

    show_log(existing(name), component, follow=follow, lines=lines)


@app.command("load")
def load(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="YAML or JSON; - is standard input.")],
    name: Name = DEFAULT_NODE,
) -> None:
    """Apply manifests to a node, without kubectl. The API server of the node must serve the kind of each object."""
    from drahealth.suites.up_command import node_commands as loading
    from drahealth.suites.up_command.node_folder import ready

    folder, _ = ready(name)
    for applied in loading.load(folder, files):
        typer.echo(f"{applied} applied")


@app.command("kubectl", context_settings=_KUBECTL)
def kubectl(context: typer.Context) -> None:
    """Run kubectl on a node: drahealth kubectl [--name NAME] ARGUMENTS.

    kubectl has the release of the node. If this kubectl is not in the cache, drahealth downloads it, or builds it with
    Go.

    `drahealth kubectl help` prints the help of kubectl itself.
    """
    if context.args == ["--help"]:  # also without a node
        typer.echo(context.get_help())
        return
    from drahealth.suites.up_command.node_commands import run_kubectl

    run_kubectl(context.args)
