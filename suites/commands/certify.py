"""The subcommands `certify`, `verify` and `diff` of `drahealth`. Everything heavy is imported where it is needed."""

import shlex
from pathlib import Path
from typing import Annotated

import typer

from drahealth.suites.commands.ending import harness_errors
from drahealth.suites.commands.run import Given, takes_target_options
from drahealth.suites.errors import ConfigurationError

app = typer.Typer()

TARGET = "kubelet"
"""The default target of `certify --kubelet`."""
TrustConfig = Annotated[
    Path | None,
    typer.Option(metavar="FILE.json", help="With sigstore: the ClientTrustConfig of another instance."),
]
Registry = Annotated[
    Path | None, typer.Option(metavar="DIR", help="With --init: registration directory of a running driver.")
]


@app.command("certify")
@takes_target_options("run", "With --kubelet", TARGET)
@harness_errors
def certify_driver(
    given: Given,
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FILE.toml",
            help="The driver profile. With --kubelet: your own build of the kubelet; default: that of --kubernetes. "
            "With --init: the command of the driver after `--`, or a registration socket.",
            show_default=False,
        ),
    ] = None,
    kubelet: Annotated[
        bool, typer.Option("--kubelet", help="Certify a kubelet with the scenarios of `run`, and no driver.")
    ] = False,
    level: Annotated[
        str | None,
        typer.Option(metavar="LEVEL", help="Level: core (default) or full. full judges more requirements."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH",
            help="Directory of the certificate; default: certificate/ beside FILE.toml, or kubelet-certificate/ with "
            "--kubelet. With --init: the new file; "
            "default: driver.toml, or NAME.toml with --driver NAME; - is standard output.",
        ),
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the certificate in the directory.")] = False,
    plan: Annotated[
        bool,
        typer.Option(
            "--plan",
            help="Print the experiments, the requirements and the duration; do not start the driver. With --kubelet: "
            "print the number of scenarios, and the requirements that no scenario can judge on the target.",
        ),
    ] = False,
    requirement: Annotated[
        list[str] | None,
        typer.Option(metavar="ID", help="Check only this requirement, such as PLUGIN-05, and write no certificate."),
    ] = None,
    api_server: Annotated[
        str | None,
        typer.Option(
            metavar="KIND",
            help="Replace the API server of the profile: memory, real or none. With --kubelet --target reference: "
            "memory (default) or real.",
        ),
    ] = None,
    deadline: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", help="End the run after this time; default: 180, or 420 for level full."),
    ] = None,
    waivers: Annotated[Path | None, typer.Option(metavar="FILE.toml", help="File with accepted violations.")] = None,
    baseline: Annotated[
        Path | None,
        typer.Option(
            metavar="REPORT.json",
            help="Report of an earlier run. Violations that are also in this report do not make the new run fail.",
        ),
    ] = None,
    init: Annotated[bool, typer.Option("--init", help="Write a driver profile with comments; check nothing.")] = False,
    driver: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="With --init: write the driver profile for dra-example-driver, nvidia, intel, tpu or cpu. With "
            "--kubelet: run the fake driver inline (default), or in its own process (process).",
        ),
    ] = "",
    registry_dir: Registry = None,
    kubeconfig: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="With --init: kubeconfig of a running driver's API server. With --kubelet: the cluster.",
        ),
    ] = None,
    judge_by: Annotated[
        str | None,
        typer.Option(
            metavar="WHAT",
            help="`release` (default): known issues of the kubelet's release are waived. `kep`: they are failures.",
            rich_help_panel="With --kubelet",
        ),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option("-n", metavar="N", min=1, help="Run N processes, as `run`.", rich_help_panel="With --kubelet"),
    ] = None,
) -> None:
    """Certify a driver that a driver profile describes, or a kubelet, and write the certificate to a directory.

    Exit codes: 0 certified, 1 fails, 2 wrong usage, 3 error of drahealth or this machine, 4 incomplete.
    """
    from drahealth.suites.commands import certify_run
    from drahealth.suites.commands.certify_init import show_plan, write_profile, write_starting_profile

    of_drivers = {
        "level": level,
        "deadline": deadline,
        "waivers": waivers,
        "baseline": baseline,
        "init": init,
        "registry-dir": registry_dir,
    }
    if kubelet:
        if wrong := [name for name, value in of_drivers.items() if value]:
            raise ConfigurationError(f"--{wrong[0]} is only for drivers", f"remove --{wrong[0]}, or --kubelet")
        if words and len(words) > 1:
            raise ConfigurationError(f"pass one kubelet, got {len(words)} words", "the target is chosen with --target")
        own = {"kubelet": words[0] if words else None, "driver": driver, "api-server": api_server}
        target = {"target": given["target"] or TARGET, "kubeconfig": str(kubeconfig) if kubeconfig else None}
        raise typer.Exit(
            _certify_kubelet(
                {**given, **own, **target},
                out=out,
                overwrite=overwrite,
                plan=plan,
                judge_by=judge_by,
                workers=workers,
                requirements=tuple(requirement or ()),
            )
        )
    for_kubelets = {**given, "judge-by": judge_by, "n": workers}
    if wrong := [name for name, value in for_kubelets.items() if value]:
        dashes = "--" if len(wrong[0]) > 1 else "-"
        raise ConfigurationError(f"{dashes}{wrong[0]} is only for kubelets", "pass --kubelet, too")
    if init and plan:
        raise ConfigurationError("--plan and --init exclude each other", "remove one of them")
    if init:
        if driver:
            written = write_starting_profile(driver, out)
        else:
            written = write_profile(words or [], registry_dir=registry_dir, kubeconfig=kubeconfig, out=out)
        if written:
            from drahealth.fakes.program.usage import command_name

            typer.echo(f"wrote {written}; next: {command_name()} certify {shlex.quote(str(written))}")
        return
    if driver:
        raise ConfigurationError("--driver is only for --init", "remove --driver, or pass --init")
    if registry_dir or kubeconfig:
        raise ConfigurationError(
            "--registry-dir and --kubeconfig are only for --init", "pass --init, or set `running` in the driver profile"
        )
    if not words or len(words) > 1:
        raise ConfigurationError("pass one driver profile", "`drahealth certify --init -- COMMAND...` writes one")
    path = Path(words[0])
    run = certify_run.run_of(
        path, level=level or "core", api_server=api_server, deadline=deadline, requirements=requirement or ()
    )
    if plan:
        show_plan(run)
        return
    request = certify_run.Request(
        profile=path,
        out=out or path.parent / "certificate",
        overwrite=overwrite,
        waivers=waivers,
        baseline=baseline,
        requirements=tuple(requirement or ()),
    )
    raise typer.Exit(certify_run.certify(run, request))


def _certify_kubelet(
    given: Given,
    *,
    out: Path | None,
    overwrite: bool,
    plan: bool,
    judge_by: str | None,
    workers: int | None,
    requirements: tuple[str, ...],
) -> int:
    from drahealth.suites.commands.certify_kubelet import KubeletRequest, certify_kubelet, judge_named, plan_lines

    judged_by = judge_named(judge_by or "release")
    if plan:
        for line in plan_lines(given):
            typer.echo(line)
        return 0
    folder = out or Path("kubelet-certificate")
    return certify_kubelet(given, KubeletRequest(folder, overwrite, judged_by, workers, requirements))


@app.command("verify")
@harness_errors
def verify_report(
    report: Annotated[
        Path, typer.Argument(metavar="REPORT", help="The directory of a certificate, or its report.json.")
    ],
    evidence: Annotated[
        Path | None,
        typer.Argument(metavar="EVIDENCE", help="With report.json: the evidence.jsonl of the same certificate."),
    ] = None,
    key: Annotated[
        Path | None, typer.Option(metavar="PUBLIC.pem", help="Require a signature with this key, by its public key.")
    ] = None,
    identity: Annotated[
        str, typer.Option(metavar="NAME", help="Require a signature with sigstore by this email or URI.")
    ] = "",
    issuer: Annotated[
        str, typer.Option(metavar="URL", help="With --identity: the OpenID Connect issuer of the identity.")
    ] = "",
    trust_config: TrustConfig = None,
    subject: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Require that the certificate is about this driver, or kubelet.")
    ] = None,
    require_certified: Annotated[
        bool, typer.Option("--require-certified", help="Exit with code 5 if the driver or kubelet is not certified.")
    ] = False,
) -> None:
    """Judge the evidence of a certificate again, and compare the verdicts with those in the report.

    `verify` detects an edited report, statement or evidence. Only a signature, with --key or --identity, detects a
    forgery that changes all files consistently.
    Exit codes: 0 same verdicts, 1 other verdicts, an edited file or a signature of somebody else, 2 unreadable files.
    Exit code 4: same verdicts, but the report is from another version of drahealth or of the ledger, or the run did
    not reach its end. Exit code 5: same verdicts, not certified, with --require-certified.
    """
    from drahealth.suites.commands.certificate_files import Signer
    from drahealth.suites.commands.verify_run import files_of, verify

    signer = Signer(key, identity, issuer, trust_config, subject)
    raise typer.Exit(verify(*files_of(report, evidence), signer, require_certified=require_certified))


@app.command("sign")
@harness_errors
def sign_certificate(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The directory of a certificate.")],
    key: Annotated[
        Path | None,
        typer.Option(metavar="FILE.pem", help="Sign with this private key. Default: sigstore, with your identity."),
    ] = None,
    trust_config: TrustConfig = None,
) -> None:
    """Sign the in-toto statement of a certificate, with a key or with sigstore.

    Exit codes: 0 signed, 2 wrong usage, 3 sigstore failed.
    """
    from drahealth.suites.commands.certificate_files import sign

    typer.echo(f"wrote {sign(folder, key, trust_config)}")


@app.command("diff")
@harness_errors
def diff_reports(
    first: Annotated[Path, typer.Argument(metavar="A", help="The directory of a certificate, or a file of --report.")],
    second: Annotated[
        Path, typer.Argument(metavar="B", help="Another directory of a certificate, or another file of --report.")
    ],
) -> None:
    """Print the differences between two reports of drivers, or of two runs: what was tested, and the verdicts.

    Exit codes: 0 no difference, 1 differences, 2 unreadable or unsupported files.
    """
    from drahealth.suites.commands.verify_run import show_diff

    raise typer.Exit(show_diff(first, second))
