"""`drahealth driver serve`. Everything heavy is imported when it runs."""

from pathlib import Path
from typing import Annotated, Any

import typer

from drahealth.fakes.program.errors import CommandError
from drahealth.fakes.program.log import LogFormat, LogFormatOption
from drahealth.fakes.program.usage import CommandGroup

app = typer.Typer(
    name="driver",
    cls=CommandGroup,
    help="Run fake drivers and device plugins in a separate process.",
    no_args_is_help=True,
)


_PANEL = "With an inventory file (-f)"


def _of_file(text: str, metavar: str) -> Any:
    return typer.Option(help=text, metavar=metavar, rich_help_panel=_PANEL, show_default=False)


@app.callback()
def driver() -> None:
    """Run fake drivers and device plugins in a separate process."""


@app.command("serve")
def serve(
    file: Annotated[
        Path | None,
        typer.Option("-f", "--file", metavar="FILE", help="Inventory file with drivers and device plugins."),
    ] = None,
    socket: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH",
            help="Control socket. Default with -f: the socket that `drahealth ctl` uses. Default without -f: standard "
            "input and output.",
        ),
    ] = None,
    kubeconfig: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Kubeconfig; default: the service account, if this process runs in a Pod."),
    ] = None,
    kubelet_dir: Annotated[
        Path | None, _of_file("Root directory of the kubelet; default: /var/lib/kubelet.", "DIR")
    ] = None,
    registry_dir: Annotated[
        Path | None, _of_file("Directory for registration sockets; default: KUBELET_DIR/plugins_registry.", "DIR")
    ] = None,
    plugins_dir: Annotated[
        Path | None, _of_file("Directory for the endpoint sockets of drivers; default: KUBELET_DIR/plugins.", "DIR")
    ] = None,
    device_plugins_dir: Annotated[
        Path | None, _of_file("Directory for sockets of device plugins; default: KUBELET_DIR/device-plugins.", "DIR")
    ] = None,
    cdi_dir: Annotated[
        Path | None,
        _of_file(
            "Directory for CDI specifications; default: /var/run/cdi if KUBELET_DIR is /var/lib/kubelet, else none.",
            "DIR",
        ),
    ] = None,
    node_name: Annotated[
        str | None,
        _of_file("Name of the node; default: the variable NODE_NAME, else the name of this machine.", "NAME"),
    ] = None,
    driver_name: Annotated[
        str | None, _of_file("Driver name, if the inventory has no name; default: gpu.example.com.", "NAME")
    ] = None,
    instance: Annotated[
        str | None, _of_file("Instance ID for rolling updates, such as the UID of the driver's Pod.", "ID")
    ] = None,
    catalogue: Annotated[
        str | None, _of_file("Fault catalogue: nvidia (default), amd, intel, nic, tpu.", "NAME")
    ] = None,
    policy: Annotated[
        str | None, _of_file("Policy that maps faults to health; default: nvidia-catalogue.", "NAME")
    ] = None,
    seed: Annotated[
        int | None, _of_file("Seed of random values; default: the seed of the timeline, else 0.", "N")
    ] = None,
    play: Annotated[Path | None, _of_file("Timeline to play after the driver is registered.", "FILE")] = None,
    speed: Annotated[float | None, _of_file("Speed factor of the timeline; default: 1.", "X")] = None,
    pod_annotations: Annotated[
        bool,
        typer.Option(
            "--pod-annotations",
            help="Set health from annotations of Pods on the node, such as health.example.com/gpu-0: unhealthy.",
            rich_help_panel=_PANEL,
        ),
    ] = False,
    annotation_prefix: Annotated[
        str | None, _of_file("Prefix of the annotations that set health; default: health.example.com.", "PREFIX")
    ] = None,
    metrics_port: Annotated[
        int | None,
        _of_file(
            "Port for Prometheus metrics; 0 selects a free port. Clients need the token in the file "
            "CONTROL_SOCKET.metrics-token.",
            "PORT",
        ),
    ] = None,
    metrics_address: Annotated[
        str | None,
        _of_file(
            "Address for metrics; default: 127.0.0.1. In a Pod, use 0.0.0.0. With 0.0.0.0, clients need no token.",
            "ADDRESS",
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="With -f: print JSON lines, even on a terminal.")] = False,
    log_format: LogFormatOption = LogFormat.TEXT,
    jumping_clock: Annotated[
        bool, typer.Option("--jumping-clock", help="Without -f: let clients move the clock forward.")
    ] = False,
) -> None:
    """Serve fake drivers and device plugins beside a kubelet, until SIGTERM or Ctrl-C.

    With -f, the inventory file defines the drivers and device plugins, and `drahealth ctl` controls them. Without -f,
    clients create drivers and control them: they send JSON lines to the socket or to standard input.
    Exit codes: 2 wrong usage, 3 error in the environment.
    """
    if log_format is LogFormat.JSON:
        from drahealth.fakes.program.log import log_as_json

        log_as_json()
    given: dict[str, Any] = {
        "kubelet_dir": kubelet_dir,
        "registry_dir": registry_dir,
        "plugins_dir": plugins_dir,
        "device_plugins_dir": device_plugins_dir,
        "cdi_dir": cdi_dir,
    }
    given |= {"node_name": node_name, "driver_name": driver_name, "instance": instance, "catalogue": catalogue}
    given |= {"policy": policy, "seed": seed, "json": json or None, "pod_annotations": pod_annotations or None}
    given |= {"play": play, "speed": speed}
    given |= {"annotation_prefix": annotation_prefix, "metrics_port": metrics_port, "metrics_address": metrics_address}
    if file is None:
        if odd := next((name for name, value in given.items() if value is not None), None):
            raise CommandError(f"--{odd.replace('_', '-')} needs an inventory file; pass one with -f")
        from drahealth.fakes.serve.session_process import run

        run(socket, kubeconfig, jumping=jumping_clock, program="drahealth driver serve")
        return
    if jumping_clock:
        raise CommandError("--jumping-clock and -f exclude each other; remove one of them")
    from drahealth.fakes.serve.program import run_standing

    if log_format is LogFormat.JSON:
        given["json"] = True
    run_standing(file, socket=socket, kubeconfig=kubeconfig, given={k: v for k, v in given.items() if v is not None})
