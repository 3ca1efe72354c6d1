"""The subcommands `certify`, `verify` and `diff` of `drahealth`. Everything heavy is imported where it is needed."""

import shlex
from pathlib import Path
from typing import Annotated

import typer

from drahealth.suites.commands.ending import harness_errors
from drahealth.suites.errors import ConfigurationError

app = typer.Typer()

TrustConfig = Annotated[
    Path | None,
    typer.Option(metavar="FILE.json", help="With sigstore: the ClientTrustConfig of another instance."),
]
Registry = Annotated[
    Path | None, typer.Option(metavar="DIR", help="With --init: registration directory of a running driver.")
]


@app.command("certify")
@harness_errors
def certify_driver(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FILE.toml",
            help="The driver profile. With --init: the command of the driver after `--`, or a registration socket.",
            show_default=False,
        ),
    ] = None,
    level: Annotated[
        str, typer.Option(metavar="LEVEL", help="Level: core or full. full judges more requirements.")
    ] = "core",
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH",
            help="Directory of the certificate; default: certificate/ beside FILE.toml. With --init: the new file; "
            "default: driver.toml, or NAME.toml with --driver NAME; - is standard output.",
        ),
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the certificate in the directory.")] = False,
    plan: Annotated[
        bool,
        typer.Option(
            "--plan", help="Print the experiments, the requirements and the duration; do not start the driver."
        ),
    ] = False,
    requirement: Annotated[
        list[str] | None,
        typer.Option(metavar="ID", help="Check only this requirement, such as PLUGIN-05, and write no certificate."),
    ] = None,
    api_server: Annotated[
        str | None,
        typer.Option(metavar="KIND", help="Replace the API server of the profile: memory, real or none."),
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
            help="With --init: write the driver profile for dra-example-driver, nvidia, intel, tpu or cpu.",
        ),
    ] = "",
    registry_dir: Registry = None,
    kubeconfig: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="With --init: kubeconfig of a running driver's API server."),
    ] = None,
) -> None:
    """Certify a driver that a driver profile describes, and write its certificate to a directory.

    Exit codes: 0 certified, 1 fails, 2 wrong usage, 3 error of drahealth or this machine, 4 incomplete.
    """
    from drahealth.suites.commands import certify_run
    from drahealth.suites.commands.certify_init import show_plan, write_profile, write_starting_profile

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
        path, level=level, api_server=api_server, deadline=deadline, requirements=requirement or ()
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
        Path | None, typer.Option(metavar="FILE", help="Require that the certificate is about this driver.")
    ] = None,
    require_certified: Annotated[
        bool, typer.Option("--require-certified", help="Exit with code 5 if the driver is not certified.")
    ] = False,
) -> None:
    """Judge the evidence of a certificate again, and compare the verdicts with those in the report.

    `verify` detects an edited report, statement or evidence. Only a signature, with --key or --identity, detects a
    forgery that changes all files consistently.
    Exit codes: 0 same verdicts, 1 other verdicts, an edited file or a signature of somebody else, 2 unreadable files.
    Exit code 4: same verdicts, but the report is from another version of drahealth or of the ledger, or the run did
    not reach its end. Exit code 5: same verdicts, not certified, with --require-certified.
    """
    from drahealth.suites.commands.certify_run import Signer, files_of, verify

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
    from drahealth.suites.commands.certify_run import sign

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
    from drahealth.suites.commands.certify_run import show_diff

    raise typer.Exit(show_diff(first, second))
