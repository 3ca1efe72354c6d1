"""The owner of a cluster, and the removal of our unused clusters.

A cluster is ours if its nodes have the mark of a run with a record on this machine. Its name proves nothing.
"""

import asyncio
import contextlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from drahealth.suites.errors import HarnessError
from drahealth.suites.targets.engine.engine import Engine, find_engine
from drahealth.suites.targets.kind.cluster.containers import Container, node_containers
from drahealth.suites.targets.kind.cluster.marker import run_id_of
from drahealth.suites.targets.kind.cluster.program import Kind, Stages, find_kind
from drahealth.suites.targets.kind.cluster.records import Claim, Record, records, seize
from drahealth.suites.targets.progress import Progress, silent

_LATE = 120.0
"""Seconds after a record was made in which the engine may still make containers for an interrupted kind."""
_AGAIN = 1.0
"""Seconds until such containers are visible."""
_REMOVE_LIMIT = 120.0
_LOAD_BALANCER = "external-load-balancer"


@dataclass(frozen=True, slots=True)
class ClusterSurvey:
    """The clusters of this user on one engine. All records but `gone` and `elsewhere` have a node there."""

    abandoned: tuple[Record, ...] = ()
    kept: tuple[Record, ...] = ()
    in_use: tuple[Record, ...] = ()
    gone: tuple[Record, ...] = ()
    """Unused, without containers."""
    elsewhere: tuple[Record, ...] = ()
    """On another engine."""
    unknown: tuple[str, ...] = ()
    """Names of drahealth clusters without a record here: those of another user or machine."""


def holdings(found: Iterable[Record], containers: Sequence[Container], engine: str) -> ClusterSurvey:
    """Sorts the records by the containers of their clusters; `engine` is the identity of the engine."""
    marks = {run_id_of(container.mounts) for container in containers}
    sorts: dict[str, list[Record]] = {}
    known = set()
    for record in found:
        known.add(record.run_id)
        sorts.setdefault(_sort(record, record.run_id in marks, engine), []).append(record)
    strange = {c.cluster for c in containers if run_id_of(c.mounts) not in {None, *known}}
    return ClusterSurvey(**{sort: tuple(those) for sort, those in sorts.items()}, unknown=tuple(sorted(strange)))


async def survey(engine: Engine) -> ClusterSurvey:
    """The clusters that exist now."""
    found = records()  # first, so that it has no cluster that is made after it
    return holdings(found, await node_containers(engine), engine.identity)


async def sweep(engine: Engine, kind: Kind | None, progress: Progress = silent, *, kept: bool = False) -> list[str]:
    """Removes the unused clusters of our runs, with `kept` also kept ones. Returns lines that say what was removed.

    Continues after a failed removal. Raises the HarnessError of the first one at the end.
    """
    there = await survey(engine)
    if any(map(_is_young, there.gone)):
        await asyncio.sleep(_AGAIN)
        there = await survey(engine)
    for record in there.gone:
        if not _is_young(record) and (claim := seize(record)):
            claim.discard()
    removed, failures = [], []
    for record in (*there.abandoned, *(there.kept if kept else ())):
        if claim := seize(record):
            try:
                if kept or not claim.record.kept:  # its run may have ended and kept it since the survey
                    await remove(claim, engine, kind, progress)
                    removed.append(f"removed the cluster {record.cluster}, made {record.made}")
            except HarnessError as error:
                failures.append(error)
            finally:
                claim.release()
    if failures:
        raise failures[0]
    return removed


async def remove(claim: Claim, engine: Engine, kind: Kind | None, progress: Progress = silent) -> None:
    """Removes the cluster of a claim, and the claim; harmless if the cluster does not exist.

    Removes only containers with the mark of the claim. Raises HarnessError if one remains; then the record remains too.
    """
    progress(f"Removing the cluster {claim.cluster}")
    await _remove_nodes(claim, engine, kind, progress)
    if _is_young(claim.record):
        await asyncio.sleep(_AGAIN)
        await _remove_nodes(claim, engine, kind, progress)
    claim.discard()


async def clean(kept: bool = False, progress: Progress = silent) -> tuple[list[str], list[str]]:
    """Removes the clusters that interrupted runs left. Lines for people: what was removed, and what was not.

    With `kept` also the clusters that were to be kept. Images stay.
    """
    removed: list[str] = []
    left: list[str] = []
    if records():
        engine = await find_engine()
        kind = await _kind_or_none(engine)
        clusters = await sweep(engine, kind, progress, kept=kept)
        left = _left(await survey(engine))
        removed = [*clusters, "images are not removed"] if clusters else []
    return removed, left


def _sort(record: Record, there: bool, engine: str) -> str:
    if record.in_use:
        return "in_use"
    if record.engine != engine:
        return "elsewhere"
    if not there:
        return "gone"
    return "kept" if record.kept else "abandoned"


def _is_young(record: Record) -> bool:
    return record.age(datetime.now(UTC)) < _LATE


def _left(there: ClusterSurvey) -> list[str]:
    reasons = [(record, "is kept; pass --kept to remove it") for record in there.kept]
    reasons += [(record, "is in use") for record in there.in_use]
    reasons += [(record, f"is on another engine ({record.engine})") for record in there.elsewhere]
    lines = [f"not removed: the cluster {record.cluster}, created {record.made}, {why}" for record, why in reasons]
    return lines + [f"not removed: the cluster {name}, which has no record here" for name in there.unknown]


async def _remove_nodes(claim: Claim, engine: Engine, kind: Kind | None, progress: Progress) -> None:
    """Removes the cluster by name if all nodes with that name are ours, then the remaining containers one by one."""
    nodes = await node_containers(engine)
    ours = owned(nodes, claim.run_id)
    names = {container.cluster for container in ours}
    if kind is not None and all(container in ours for container in nodes if container.cluster in names):
        with contextlib.suppress(HarnessError, OSError):  # the engine may still finish it
            for name in names:
                await kind.delete(name, progress)
        ours = owned(await node_containers(engine), claim.run_id) if ours else []
    if not ours:
        return
    stages = Stages(f"Removing the cluster {claim.cluster}", progress)
    why = "the engine reported no error, but the nodes still exist"
    try:
        ids = (container.id for container in ours)
        await engine.run("rm", "-f", "-v", *ids, limit=_REMOVE_LIMIT, on_line=stages)
    except HarnessError as error:
        why = error.message
    if left := " ".join(container.name for container in owned(await node_containers(engine), claim.run_id)):
        raise HarnessError(f"cannot remove the nodes {left}: {why}", f"try `{engine.name} rm -f -v {left}`")


def owned(nodes: Sequence[Container], run_id: str) -> list[Container]:
    """The containers of a run's cluster: those with its mark, and the load balancer of kind.

    The load balancer has no mounts, so it is included only if all other containers of the cluster have the mark.
    """
    marked = [node for node in nodes if run_id_of(node.mounts) == run_id]
    names = {node.cluster for node in marked}
    others = [node for node in nodes if node.cluster in names and node not in marked]
    return marked + (others if all(node.role == _LOAD_BALANCER for node in others) else [])


async def _kind_or_none(engine: Engine) -> Kind | None:
    try:
        return await find_kind(engine)
    except HarnessError:
        return None
