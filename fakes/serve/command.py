"""`drahealth driver serve`. Everything heavy is imported when it runs."""

from pathlib import Path
from typing import Annotated, Any

import typer

from drahealth.fakes.program.errors import CommandError
from drahealth.fakes.program.usage import Verbs

app = typer.Typer(cls=Verbs, help="The fake driver as a program of its own.", no_args_is_help=True)


_PANEL = "Drivers of a file (-f)"


def _of_file(text: str, metavar: str) -> Any:
    return typer.Option(help=text, metavar=metavar, rich_help_panel=_PANEL, show_default=False)


@app.callback()
def driver() -> None:
    """The fake driver as a program of its own."""


@app.command("serve")
def serve(
    file: Annotated[
        Path | None,
        typer.Option("-f", "--file", metavar="FILE", help="The inventory: drivers and device plugins."),
    ] = None,
    socket: Annotated[
        Path | None,
        typer.Option(metavar="PATH", help="The control socket; without -f, standard input and output else."),
    ] = None,
    kubeconfig: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The API server; without, that of the pod this runs in.")
    ] = None,
    kubelet_dir: Annotated[Path | None, _of_file("The kubelet's directory; /var/lib/kubelet.", "DIR")] = None,
    registry_dir: Annotated[Path | None, _of_file("Registration sockets; KUBELET_DIR/plugins_registry.", "DIR")] = None,
    plugins_dir: Annotated[Path | None, _of_file("The drivers' folders; KUBELET_DIR/plugins.", "DIR")] = None,
    device_plugins_dir: Annotated[
        Path | None, _of_file("Sockets of device plugins; KUBELET_DIR/device-plugins.", "DIR")
    ] = None,
    cdi_dir: Annotated[
        Path | None, _of_file("CDI specifications; /var/run/cdi, or none for another KUBELET_DIR.", "DIR")
    ] = None,
    node_name: Annotated[str | None, _of_file("The node; by itself NODE_NAME, or this machine's name.", "NAME")] = None,
    driver_name: Annotated[
        str | None, _of_file("The driver of a file that names none; gpu.example.com.", "NAME")
    ] = None,
    instance: Annotated[str | None, _of_file("Tells two of a rolling update apart, as a pod's uid does.", "ID")] = None,
    catalogue: Annotated[str | None, _of_file("Their faults: nvidia (default), amd, intel, nic, tpu.", "NAME")] = None,
    policy: Annotated[str | None, _of_file("Which faults mean Unhealthy; nvidia-catalogue.", "NAME")] = None,
    seed: Annotated[int | None, _of_file("What is drawn at random; 0, or the timeline's own.", "N")] = None,
    play: Annotated[Path | None, _of_file("A timeline that is played once the driver is registered.", "FILE")] = None,
    speed: Annotated[float | None, _of_file("So many times as fast; 1.", "X")] = None,
    pod_annotations: Annotated[
        bool,
        typer.Option(
            "--pod-annotations",
            help="Follow the annotations of pods: health.example.com/gpu-0: unhealthy.",
            rich_help_panel=_PANEL,
        ),
    ] = False,
    annotation_prefix: Annotated[str | None, _of_file("Theirs; health.example.com.", "PREFIX")] = None,
    metrics_port: Annotated[int | None, _of_file("Serve metrics for Prometheus; 0 is any free port.", "PORT")] = None,
    metrics_address: Annotated[
        str | None, _of_file("Where; 127.0.0.1. In a pod 0.0.0.0 lets Prometheus reach it.", "ADDRESS")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="JSON lines, also on a terminal (with -f).")] = False,
    jumping_clock: Annotated[
        bool, typer.Option("--jumping-clock", help="A clock that who connects can jump (without -f).")
    ] = False,
) -> None:
    """Serve fake drivers and device plugins next to a kubelet until SIGTERM or Ctrl-C.

    With -f they are those of the file, and `drahealth ctl` tells them what happens. Without, whoever connects makes
    them, by JSON lines. Exits 2 for usage, 3 for environment.
    """
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
            raise CommandError(f"--{odd.replace('_', '-')} says something of the drivers of a file; give one with -f")
        from drahealth.fakes.serve.session_process import run

        run(socket, kubeconfig, jumping=jumping_clock, program="drahealth driver serve")
        return
    if jumping_clock:
        raise CommandError("--jumping-clock is for drivers that who connects makes; leave it or -f out")
    from drahealth.fakes.serve.running import run_standing

    run_standing(file, socket=socket, kubeconfig=kubeconfig, given={k: v for k, v in given.items() if v is not None})
