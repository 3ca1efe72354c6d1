"""Whose a cluster is, and the removal of ours that nobody uses any more.

A cluster is ours if its nodes carry the mark of a run that is on record here. Its name alone proves nothing.
"""

import asyncio
import contextlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from drahealth.suites.errors import HarnessError
from drahealth.suites.targets.engine.engine import Container, Engine, find_engine
from drahealth.suites.targets.kind.cluster.marker import run_id_of
from drahealth.suites.targets.kind.cluster.program import Kind, Stages, find_kind
from drahealth.suites.targets.kind.cluster.records import Claim, Record, records, seize
from drahealth.suites.targets.progress import Progress, silent

_LATE = 120.0
"""Seconds after a record was made in which the engine may still be at work on an order of a kind that was ended."""
_AGAIN = 1.0
"""Seconds after which such an order shows."""
_REMOVE_LIMIT = 120.0
_LOAD_BALANCER = "external-load-balancer"


@dataclass(frozen=True, slots=True)
class Holdings:
    """This user's clusters on one engine, where each record has a node there, but for the `gone` and `elsewhere`."""

    abandoned: tuple[Record, ...] = ()
    kept: tuple[Record, ...] = ()
    in_use: tuple[Record, ...] = ()
    gone: tuple[Record, ...] = ()
    """Nobody uses them, and nothing is left of their clusters."""
    elsewhere: tuple[Record, ...] = ()
    """On another engine than this one."""
    unknown: tuple[str, ...] = ()
    """Names of clusters that some drahealth has made, and none on record here: another user's, or another machine's."""


def holdings(found: Iterable[Record], containers: Sequence[Container], engine: str) -> Holdings:
    """Tells the records apart by what there is of their clusters; `engine` is its identity."""
    marks = {run_id_of(container.mounts) for container in containers}
    sorts: dict[str, list[Record]] = {}
    known = set()
    for record in found:
        known.add(record.run_id)
        sorts.setdefault(_sort(record, record.run_id in marks, engine), []).append(record)
    strange = {c.cluster for c in containers if run_id_of(c.mounts) not in {None, *known}}
    return Holdings(**{sort: tuple(those) for sort, those in sorts.items()}, unknown=tuple(sorted(strange)))


async def survey(engine: Engine) -> Holdings:
    """What there is now."""
    found = records()  # first: a cluster whose record is made after this has no part in it
    return holdings(found, await engine.nodes(), engine.identity)


async def sweep(engine: Engine, kind: Kind | None, progress: Progress = silent, *, kept: bool = False) -> list[str]:
    """Removes what runs of ours have left behind, and with `kept` also what they were to keep; says what was removed.

    Goes on after a cluster that cannot be removed, and raises the HarnessError of the first such at the end.
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
    """Removes the cluster of a claim, and the claim with it; a cluster that is not there is no error.

    Only containers with the claim's mark are removed. HarnessError if one is still there afterwards; so is the record.
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
        removed = [*clusters, "images stay where they are"] if clusters else []
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


def _left(there: Holdings) -> list[str]:
    said = [(record, "is to be kept; give --kept to remove it") for record in there.kept]
    said += [(record, "is in use") for record in there.in_use]
    said += [(record, f"is on another engine ({record.engine})") for record in there.elsewhere]
    lines = [f"left alone: the cluster {record.cluster}, made {record.made}, {why}" for record, why in said]
    return lines + [f"left alone: the cluster {name}, which is not on record here" for name in there.unknown]


async def _remove_nodes(claim: Claim, engine: Engine, kind: Kind | None, progress: Progress) -> None:
    """By name where all nodes of that name are ours; what is left then, one by one."""
    nodes = await engine.nodes()
    ours = owned(nodes, claim.run_id)
    names = {container.cluster for container in ours}
    if kind is not None and all(container in ours for container in nodes if container.cluster in names):
        with contextlib.suppress(HarnessError, OSError):  # the engine may yet do it
            for name in names:
                await kind.delete(name, progress)
        ours = owned(await engine.nodes(), claim.run_id) if ours else []
    if not ours:
        return
    stages = Stages(f"Removing the cluster {claim.cluster}", progress)
    why = "the engine refused nothing, and they are still there"
    try:
        ids = (container.id for container in ours)
        await engine.run("rm", "-f", "-v", *ids, limit=_REMOVE_LIMIT, on_line=stages)
    except HarnessError as error:
        why = error.message
    if left := " ".join(container.name for container in owned(await engine.nodes(), claim.run_id)):
        raise HarnessError(f"The nodes {left} cannot be removed: {why}", f"try `{engine.name} rm -f -v {left}`")


def owned(nodes: Sequence[Container], run_id: str) -> list[Container]:
    """The containers of a run's cluster: those with its mark, and the load balancer that kind sets before them.

    That one takes no mounts, so it counts only where every other container of the cluster's name has the mark.
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
