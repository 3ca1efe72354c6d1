"""What releases show of devices, as text. Pure."""

from collections.abc import Iterator, Sequence
from itertools import groupby

from drahealth.proto.quoting import printable
from drahealth.suites.certifying.pod_status.replay import Seen
from drahealth.suites.certifying.pod_status.view import ReleaseView

CHANGES = 6
"""The most changes of a device in a line; the last one counts most."""


def release_lines(views: Sequence[ReleaseView]) -> Iterator[str]:
    """A section by device and release; nothing without a prepared device."""
    if views:
        yield "What kubelets show of the same reports"
    for device, found in groupby(sorted(views, key=lambda one: one.device), key=lambda one: one.device):
        yield f"  {printable(device)}"
        for view in found:
            yield f"    {view.release}  {printable(view.resource_id)}: {printable(shown_text(view.shown))}"
            for reason in view.reasons:
                yield f"          {printable(reason)}"


def shown_text(shown: Sequence[Seen]) -> str:
    """The healths in order, each with its message."""
    if not shown:
        return "not listed"
    texts = [f"{one.health} ({one.message})" if one.message else str(one.health) for one in shown]
    if len(texts) > CHANGES:
        texts = [*texts[:3], f"{len(texts) - 4} more", texts[-1]]
    return ", then ".join(texts)
