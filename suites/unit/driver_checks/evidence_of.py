"""Evidence for tests: the records of a run, written by hand."""

from collections.abc import Mapping

from drahealth.proto.events import Event, ExperimentEnded, GrpcCall
from drahealth.suites.driver_checks.evidence import Evidence, EvidenceWriter, Header

HEADER = Header("0.1.0", "2026-11-22T09:00:00+00:00", ("./driver",), "memory", "node-a", ("registration",))


def evidence_of(*records: tuple[str, Event], header: Header = HEADER) -> Evidence:
    """A complete run with these events of experiments, a second apart; all its experiments are done."""
    return evidence_at(
        *((float(at), experiment, event) for at, (experiment, event) in enumerate(records)), header=header
    )


def evidence_at(*records: tuple[float, str, Event], header: Header = HEADER) -> Evidence:
    """The same with the time of each event, in any order."""
    writer = EvidenceWriter(header)
    ordered = sorted(records, key=lambda record: record[0])
    for at, experiment, event in ordered:
        writer.add(at, experiment, event)
    told = {experiment for _, experiment, event in ordered if isinstance(event, ExperimentEnded)}
    for experiment in dict.fromkeys(experiment for _, experiment, _ in ordered):
        if experiment not in told:
            writer.add(ordered[-1][0], experiment, ExperimentEnded("done"))
    writer.finish()
    return writer.evidence


def call(method: str, *, response: Mapping[str, object] | None = None, code: str = "OK", **request: object) -> GrpcCall:
    """A call of the kubelet side to the driver."""
    answer = {**(response or {})} if code == "OK" else None
    return GrpcCall("gpu.example.com", "/run/dra.sock", method, request, answer, 0.01, code)
