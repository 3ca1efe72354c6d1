"""The subcommand `observe` of `drahealth`. It imports everything heavy when it runs."""

from pathlib import Path
from typing import Annotated

import typer

from drahealth.suites.commands.ending import harness_errors

app = typer.Typer()


@app.command("observe")
@harness_errors
def observe_driver(
    driver: Annotated[str, typer.Option(metavar="NAME", help="Name of the driver, as in its ResourceSlices.")],
    kubeconfig: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Kubeconfig of the cluster; default: that of kubectl.")
    ] = None,
    context: Annotated[str | None, typer.Option(metavar="NAME", help="Context of the kubeconfig.")] = None,
    namespace: Annotated[
        str, typer.Option(metavar="NAME", help="Existing namespace for the Pods and claims of the observer.")
    ] = "default",
    node_selector: Annotated[
        str, typer.Option(metavar="LABELS", help="Observe only nodes with these labels, such as gpu=true,zone=a.")
    ] = "",
    device_class: Annotated[
        str, typer.Option(metavar="NAME", help="DeviceClass for the claims; default: the only one for the driver.")
    ] = "",
    image: Annotated[
        str, typer.Option(metavar="IMAGE", help="Image of the Pods; it must run until it is stopped.")
    ] = "registry.k8s.io/pause:3.10",
    duration: Annotated[
        str, typer.Option("--for", metavar="DURATION", help="How long to watch, such as 90s or 10m.")
    ] = "150s",
    report: Annotated[str | None, typer.Option(metavar="FILE.json", help="Write the report as JSON.")] = None,
    junitxml: Annotated[str | None, typer.Option(metavar="FILE.xml", help="Write the verdicts as JUnit XML.")] = None,
    html: Annotated[
        str | None, typer.Option(metavar="FILE.html", help="Write the report as a web page, a column for each node.")
    ] = None,
) -> None:
    """Observe an installed driver on all its nodes, from the API alone, and judge each node.

    The command changes no object of others. On each node it starts a small Pod with a claim for one free device,
    watches what statuses, ResourceSlices and Events show, and removes the Pods.
    Exit codes: 0 all nodes pass, 1 a node fails, 2 wrong usage, 3 error in the environment or interrupted, 4 a node was
    not judged completely.
    """
    from drahealth.suites.commands.observe_run import Outputs, asked_for, run

    asked = asked_for(driver, duration, namespace, device_class, image, node_selector)
    raise typer.Exit(run(asked, kubeconfig, context, Outputs(report, junitxml, html)))
