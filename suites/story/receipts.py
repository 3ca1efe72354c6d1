"""Which reports of drivers the kubelet has received. Pure."""

from collections.abc import Iterable

from drahealth.proto.events import Record, ReportReceived, ReportSent, StreamClosed


def are_received(records: Iterable[Record]) -> bool:
    """Whether the kubelet has received a report of each driver since the driver sent its last one.

    Only the reference records what it receives; a report on a stream that has ended can be lost.
    """
    sent: dict[str, tuple[str, float]] = {}
    received: dict[str, float] = {}
    for record in records:
        match record.what:
            case ReportSent(driver=driver, stream=stream):
                sent[driver] = stream, record.at
            case ReportReceived(driver=driver):
                received[driver] = record.at
            case StreamClosed(driver=driver, stream=stream) if sent.get(driver, ("", 0.0))[0] == stream:
                del sent[driver]
    return all(at >= sent[driver][1] for driver, at in received.items() if driver in sent)
