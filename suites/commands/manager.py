"""The subcommand `manager` of `drahealth`."""

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from drahealth.fakes.program.log import LogFormat, LogFormatOption
from drahealth.manager.releases import DEFAULT_VERSION, PROFILES_TEXT

app = typer.Typer()


def _profiles() -> Iterable[str]:
    """The profiles of the reference."""
    from drahealth.manager.releases import PROFILES

    return PROFILES


@app.command("manager")
def run_manager(
    root_dir: Annotated[
        Path,
        typer.Option(
            metavar="DIR", help="Root directory, in place of /var/lib/kubelet. Drivers register in this directory."
        ),
    ],
    pods: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Directory with manifests. The manager writes the Pod statuses to the same directory. Default: the "
            "directory `pods` in the root directory.",
        ),
    ] = None,
    profile: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help=f"Profile of the reference: {PROFILES_TEXT}. With a real API server, the default is "
            "the profile of the API server's release.",
            autocompletion=_profiles,
        ),
    ] = None,
    api_server: Annotated[
        str,
        typer.Option(metavar="KIND", help="API server: memory (in this process) or real (kube-apiserver and etcd)."),
    ] = "memory",
    kubernetes: Annotated[
        str | None,
        typer.Option(metavar="VERSION", help=f"Kubernetes release of a real API server; default: {DEFAULT_VERSION}."),
    ] = None,
    node_name: Annotated[
        str | None, typer.Option(metavar="NAME", help="Name of the node; default: the name of this machine.")
    ] = None,
    resync: Annotated[
        float, typer.Option(metavar="SECONDS", help="Time between two resyncs of each Pod status.")
    ] = 60.0,
    feature_gates: Annotated[
        str | None,
        typer.Option(
            metavar="GATE=BOOL,...",
            help="Feature gates: ResourceHealthStatus and ResourceHealthStatusMessage; default: both true.",
        ),
    ] = None,
    metrics_port: Annotated[
        int | None,
        typer.Option(
            metavar="PORT",
            help="Port for Prometheus metrics on 127.0.0.1; 0 selects a free port. "
            "Clients need the token in the file metrics-token of the root directory.",
        ),
    ] = None,
    history: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write all messages of drivers and device plugins to this new file."),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON lines, even on a terminal.")] = False,
    log_format: LogFormatOption = LogFormat.TEXT,
) -> None:
    """Run the reference in place of a kubelet. The reference runs Pods from manifests, and shows the health that
    drivers report.

    SIGTERM or Ctrl-C ends the manager. The next manager with the same root directory continues from the saved state.
    Exit codes: 2 wrong usage, 3 error in the environment.
    """
    if log_format is LogFormat.JSON:
        from drahealth.fakes.program.log import log_as_json

        log_as_json()
    from drahealth.suites.manager_command.program import Options, serve

    serve(
        Options.make(
            root_dir=root_dir,
            pods=pods,
            profile=profile,
            api_server=api_server,
            kubernetes=kubernetes,
            node_name=node_name,
            resync=resync,
            feature_gates=feature_gates,
            metrics_port=metrics_port,
            json=json or log_format is LogFormat.JSON,
            history=history,
        )
    )
