"""The subcommands `check`, `judge`, `report` and `selftest` of `drahealth`. Subcommands import everything heavy."""

from pathlib import Path
from typing import Annotated

import typer

from drahealth.manager.releases import VERSIONS_TEXT
from drahealth.suites.commands.ending import harness_errors

app = typer.Typer()

Waivers = Annotated[Path | None, typer.Option(metavar="FILE.toml", help="File with accepted violations.")]
JsonReport = Annotated[str | None, typer.Option(metavar="FILE.json", help="Write the report as JSON.")]
JunitXml = Annotated[str | None, typer.Option(metavar="FILE.xml", help="Write the verdicts as JUnit XML.")]
HtmlPage = Annotated[str | None, typer.Option(metavar="FILE.html", help="Write the report as a web page.")]


@app.command("check")
@harness_errors
def check_driver(
    context: typer.Context,
    command: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[SOCKET | -- COMMAND...]",
            help="Registration socket of a running driver, or the command that starts the driver.",
            show_default=False,
        ),
    ] = None,
    device_plugin: Annotated[
        bool, typer.Option("--device-plugin", help="COMMAND starts a device plugin instead of a DRA driver.")
    ] = False,
    registry_dir: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Registration directory of a running driver.")
    ] = None,
    kubeconfig: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Kubeconfig of a running driver's API server. drahealth creates claims, and reads ResourceSlices "
            "there.",
        ),
    ] = None,
    cdi_dir: Annotated[
        list[Path] | None,
        typer.Option(metavar="DIR", help="CDI directory of a running driver; default: /etc/cdi and /var/run/cdi."),
    ] = None,
    node_name: Annotated[
        str, typer.Option(metavar="NAME", help="Node of a running driver; default: the name of this machine.")
    ] = "",
    env: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="Environment variable for the driver; VALUE can have placeholders."),
    ] = None,
    driver_name: Annotated[
        str, typer.Option(metavar="NAME", help="Name of the driver. The directory {driver_dir} has the same name.")
    ] = "",
    api_server: Annotated[
        str,
        typer.Option(
            metavar="KIND",
            help="API server for the driver: memory (in the process of drahealth), real (kube-apiserver and etcd) or "
            "none.",
        ),
    ] = "memory",
    kubernetes: Annotated[
        str | None,
        typer.Option(
            metavar="VERSION",
            help=f"Kubernetes release of a real API server, {VERSIONS_TEXT}.",
        ),
    ] = None,
    claim: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="File with the ResourceClaim to prepare; default: a claim for one published device."
        ),
    ] = None,
    requirement: Annotated[
        list[str] | None, typer.Option(metavar="ID", help="Check only this requirement, such as PLUGIN-05.")
    ] = None,
    sequential: Annotated[
        bool,
        typer.Option(
            "--sequential",
            help="Run only one process of the driver at a time. By default, several processes run at the same time, "
            "each for different experiments.",
        ),
    ] = False,
    sandbox: Annotated[
        bool,
        typer.Option(
            "--sandbox", help="Give each driver process a private /var/lib/kubelet and private CDI directories."
        ),
    ] = False,
    private: Annotated[
        list[Path] | None,
        typer.Option(metavar="DIR", help="Make another directory private in the sandbox, such as /run/nri."),
    ] = None,
    deadline: Annotated[float, typer.Option(metavar="SECONDS", help="End the run after this time.")] = 180.0,
    plan: Annotated[bool, typer.Option("--plan", help="Print the experiments and their duration, and exit.")] = False,
    evidence: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the evidence to this new file.")] = None,
    redact: Annotated[bool, typer.Option(help="Replace secrets and host paths in the evidence.")] = True,
    waivers: Waivers = None,
    report: JsonReport = None,
    junitxml: JunitXml = None,
    html: HtmlPage = None,
) -> None:
    """Check a DRA driver or a device plugin in any language: how it works with kubelets, and how it reports health.

    Placeholders in COMMAND: {kubelet_dir} {registry_dir} {plugins_dir} {device_plugins_dir} {driver_dir} {cdi_dir}
    {kubeconfig} {node_name} {driver_name} {pod_uid} {instance}.
    Exit codes: 0 conforms, 1 fails, 2 wrong usage, 3 error of drahealth or this machine, 4 incomplete.
    """
    from drahealth.suites.commands import check_run

    run = check_run.run_of(context.params)
    outputs = check_run.Outputs(report, junitxml, waivers, tuple(requirement or ()), html)
    if plan:
        check_run.show_plan(run, outputs)
        return
    raise typer.Exit(check_run.check(run, outputs))


@app.command("judge")
@harness_errors
def judge_evidence(
    evidence: Annotated[
        Path, typer.Argument(metavar="EVIDENCE", help="Evidence that `drahealth check --evidence` wrote.")
    ],
    requirement: Annotated[
        list[str] | None, typer.Option(metavar="ID", help="Judge only this requirement, such as PLUGIN-05.")
    ] = None,
    waivers: Waivers = None,
    report: JsonReport = None,
    junitxml: JunitXml = None,
    html: HtmlPage = None,
) -> None:
    """Judge the evidence of an earlier `check` again. The exit codes are those of `check`."""
    from drahealth.suites.commands import check_run

    outputs = check_run.Outputs(report, junitxml, waivers, tuple(requirement or ()), html)
    raise typer.Exit(check_run.judge_file(evidence, outputs))


@app.command("report")
@harness_errors
def write_report(
    results: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="RESULT...",
            help="Files of --report, files of --evidence, or directories of certificates.",
            show_default=False,
        ),
    ] = None,
    html: Annotated[
        str | None, typer.Option(metavar="FILE.html", help="Write a web page with all results side by side.")
    ] = None,
    summary: Annotated[
        str | None, typer.Option(metavar="FILE.md", help="Write a text with one result, for a pull request or a job.")
    ] = None,
    badge: Annotated[
        str | None, typer.Option(metavar="FILE.svg", help="Write a badge with the verdict of one result.")
    ] = None,
    conformance: Annotated[
        str | None,
        typer.Option(metavar="FILE.yaml", help="Write a certificate in the form of Gateway API's ConformanceReport."),
    ] = None,
    implementation: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=VALUE",
            help="With --conformance: organization, project, url, version or contact of your project.",
        ),
    ] = None,
    schema: Annotated[bool, typer.Option("--schema", help="Print only the JSON Schema of reports.")] = False,
) -> None:
    """Write a web page, a text or a badge from the results of `check`, `certify` and `run`.

    `report` runs nothing, and copies the verdicts of the results. To judge evidence again, use `judge` or `verify`.
    Exit codes: 0 written, 2 wrong usage or an invalid file.
    """
    if schema:
        from json import dumps

        from drahealth.suites.report.document import report_schema

        typer.echo(dumps(report_schema(), indent=1))
        return
    from drahealth.suites.commands.check_run import write_files

    write_files(
        results or (),
        html=html,
        summary=summary,
        badge_file=badge,
        conformance=conformance,
        about=implementation or (),
    )


@app.command("selftest")
def selftest(
    mutants: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="MUTANT",
            help="Names of mutants. `healthy` and `healthy-device-plugin` are a driver and a device plugin without a "
            "defect. Default: all.",
        ),
    ] = None,
    sample: Annotated[
        int | None, typer.Option(min=1, help="Run only this number of mutants, chosen at random.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Seed for --sample.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    write: Annotated[
        Path | None, typer.Option(metavar="FILE.toml", help="Write a list of the mutants that each check caught.")
    ] = None,
) -> None:
    """Test the checks of `drahealth check` with mutants (wrong drivers). Print the checks that catch each mutant.

    Each mutant has one defect. The checks for this defect must fail, and the checks of all other MUST requirements
    must pass. The driver without a defect must conform. Exit codes: 0 all mutants are caught, 1 a mutant is not
    caught, 2 wrong usage, 3 error of drahealth or this machine.
    """
    from drahealth.suites.commands.selftest import selftest as run_selftest

    raise typer.Exit(run_selftest(mutants or (), sample=sample, seed=seed, as_json=json, write=write))
