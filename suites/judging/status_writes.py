"""Invariants on the writes of Pod statuses, as the API server saw them. Pure functions from records to violations."""

from collections.abc import Iterable, Iterator

from drahealth.proto.events import Record, StatusSeen, StatusWritten


def refused(records: Iterable[Record]) -> Iterator[str]:
    """Statuses that the API server rejected, each error once."""
    errors = dict.fromkeys(
        (record.what.pod, record.what.error)
        for record in records
        if isinstance(record.what, StatusWritten) and record.what.error
    )
    yield from (f"the status of pod {pod} was rejected: {error}" for pod, error in errors)


def unchanged(records: Iterable[Record]) -> Iterator[str]:
    """Pods whose status was written although it had not changed."""
    writes = (record.what for record in records if isinstance(record.what, StatusWritten))
    pods = dict.fromkeys(write.pod for write in writes if not write.changed and not write.error)
    yield from (f"an unchanged status of pod {pod} was written" for pod in pods)


def empty(records: Iterable[Record]) -> Iterator[str]:
    """Parts of statuses with an allocatedResourcesStatus without entries."""
    found = dict.fromkeys(
        (seen.pod, name)
        for seen in (record.what for record in records if isinstance(record.what, StatusSeen))
        for name, entries in (("", seen.resources), *((c.name, c.resources) for c in seen.all_containers))
        if entries == ()
    )
    for pod, name in found:
        yield f"{f'container {name} of ' if name else ''}pod {pod} had an empty allocatedResourcesStatus"


def unknown_keys(records: Iterable[Record]) -> Iterator[str]:
    """Keys in an allocatedResourcesStatus that the KEP does not have."""
    keys = dict.fromkeys(
        (record.what.pod, key)
        for record in records
        if isinstance(record.what, StatusSeen)
        for key in record.what.unknown_keys
    )
    yield from (f"pod {pod} showed {key}" for pod, key in keys)
