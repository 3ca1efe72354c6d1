"""`drahealth ctl stream`: what is wrong with the health streams of a driver."""

from typing import Annotated

import typer

from drahealth.fakes.ctl.told import driver_of, tell
from drahealth.fakes.hints import near
from drahealth.fakes.program.errors import CommandError
from drahealth.fakes.program.usage import Verbs

app = typer.Typer(name="stream", cls=Verbs, no_args_is_help=True, add_completion=False)


@app.command()
def silence(context: typer.Context) -> None:
    """The driver says nothing any more: no first report on a new stream, no heartbeat, no changes."""
    tell(context, "hush", quiet=True)


@app.command()
def stall(context: typer.Context) -> None:
    """Nothing goes out until it is over, then all of it does."""
    tell(context, "fault_streams", kind="stall")


@app.command(context_settings={"ignore_unknown_options": True})  # which a negative one would be
def delay(context: typer.Context, time: Annotated[str, typer.Argument(help="Such as 500ms or 3s.")]) -> None:
    """Each message goes out so much later."""
    tell(context, "fault_streams", kind="delay", value=_seconds(time))


@app.command()
def drop(context: typer.Context, share: Annotated[str, typer.Argument(help="Such as 20%.")] = "100%") -> None:
    """This share of the messages is lost."""
    tell(context, "fault_streams", kind="drop", value=_share(share))


@app.command()
def duplicate(context: typer.Context, share: Annotated[str, typer.Argument(help="Such as 20%.")] = "100%") -> None:
    """This share of the messages goes out twice."""
    tell(context, "fault_streams", kind="duplicate", value=_share(share))


@app.command()
def reorder(context: typer.Context, share: Annotated[str, typer.Argument(help="Such as 20%.")] = "100%") -> None:
    """This share of the messages changes places with the next one."""
    tell(context, "fault_streams", kind="reorder", value=_share(share))


@app.command()
def partial(context: typer.Context) -> None:
    """Changes are told by themselves, not in complete reports."""
    tell(context, "fault_streams", kind="partial")


@app.command(context_settings={"ignore_unknown_options": True})
def skew(context: typer.Context, time: Annotated[str, typer.Argument(help="Such as -5m.")]) -> None:
    """The driver's own times are off by so much."""
    tell(context, "fault_streams", kind="skew", value=_seconds(time))


@app.command()
def close(context: typer.Context, code: Annotated[str, typer.Argument(help="Such as UNAVAILABLE.")] = "OK") -> None:
    """Every open stream ends with this gRPC status code."""
    tell(context, "end_streams", code=code)


@app.command()
def send(context: typer.Context, payload: Annotated[str, typer.Argument(help="In hexadecimal, such as 0aff.")]) -> None:
    """These bytes go out as a message on every open stream: garbage on purpose."""
    tell(context, "send_raw", payload=payload)


@app.command()
def restore(
    context: typer.Context, kind: Annotated[str, typer.Argument(help="What is wrong no more; by itself all.")] = "all"
) -> None:
    """That is wrong no more."""
    kinds = ("silence", "stall", "delay", "drop", "duplicate", "reorder", "partial", "skew")
    if kind not in (*kinds, "all"):
        raise CommandError(f"streams have no fault {kind!r}; {near(kind, kinds)}")
    with driver_of(context) as driver:
        for one in kinds if kind == "all" else (kind,):
            if one == "silence":
                driver.call("hush", quiet=False)
            else:
                driver.call("restore_streams", kind=one)


def _seconds(text: str) -> float:
    from drahealth.fakes.durations import parse_signed

    try:
        return parse_signed(text)
    except ValueError as error:
        raise CommandError(str(error)) from None


def _share(text: str) -> float:
    try:
        return float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        raise CommandError(f"not a share: {text!r} (say 20% or 0.2)") from None
