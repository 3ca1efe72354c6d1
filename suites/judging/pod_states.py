"""Invariants on what health must not change in a Pod. Pure functions from records to violations.

The Pod API says how the phase, the conditions and the restart counts follow from the runs of the containers, and in
which order containers start. If health changed one of them, it would no longer follow. Deleted Pods are not judged,
because kubelets end them in different orders.
"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace

from drahealth.proto.events import ContainerRun, GateSet, PodRewritten, PodStateSeen, Record, Stopped


def not_from_containers(records: Iterable[Record]) -> Iterator[str]:
    """Phases, conditions, texts and restart counts that do not follow from the runs of the containers, each once.

    Also regular containers that start before the init containers have ended.
    """
    before: dict[str, PodStateSeen] = {}
    initialized: set[tuple[str, str]] = set()
    was_stopped, reported = False, set()
    for record in records:
        match record.what:
            case Stopped("kubelet"):
                was_stopped = True
            case PodStateSeen() as seen if not seen.is_deleting:
                initialized.update((seen.uid, run.name) for run in seen.runs if run.kind == "init" and run.ready)
                found = [
                    *_contradictions(seen, was_stopped),
                    *_restarts(before.get(seen.uid), seen),
                    *_other_texts(before.get(seen.uid), seen),
                    *_too_early(seen, initialized),
                ]
                before[seen.uid] = seen
                for words in (f"pod {seen.pod} {one}" for one in found):
                    if words not in reported:
                        reported.add(words)
                        yield words


def only_times(records: Iterable[Record]) -> Iterator[str]:
    """Pods of which a write changed nothing but times.

    After a change of the gate, a write can remove values that clients did not see.
    """
    reported = set()
    for record in records:
        match record.what:
            case GateSet():
                return
            case PodRewritten(pod=pod, uid=uid) if uid not in reported:
                reported.add(uid)
                yield f"pod {pod} was written, and only its times changed"


def _contradictions(seen: PodStateSeen, was_stopped: bool) -> Iterator[str]:
    for run in seen.runs:
        yield from (f"has container {run.name} {words}" for words in _of_run(run))
    if seen.phase not in ("Pending", "Running"):
        return  # a Pod can be rejected or evicted while its containers run
    yield from _wrong_phase(seen)
    kept = [run for run in seen.runs if run.kind != "init"]
    is_ready = bool(kept) and all(run.ready for run in kept)
    runs = any(run.state == "running" for run in seen.runs)
    expected = {"ContainersReady": is_ready, **_initialized(seen)}
    if not was_stopped:
        expected["Ready"] = is_ready  # the node controller changes it while a kubelet is away
    if runs:
        expected["PodReadyToStartContainers"] = True
    for kind, status in seen.conditions:
        if kind in expected and status != str(expected[kind]):
            yield f"has condition {kind}={status} with {_words(seen)}"
    if runs and not seen.has_address:
        yield f"has no address with {_words(seen)}"


def _of_run(run: ContainerRun) -> Iterator[str]:
    """The contradictions in one container."""
    runs = run.state == "running"
    if run.ready != (run.exit_code == 0 if run.kind == "init" else runs):
        yield f"{run.state} and {'ready' if run.ready else 'not ready'}"
    if (run.started and not runs) or (runs and not run.started and run.kind != "init"):
        yield f"{run.state} and {'started' if run.started else 'not started'}"
    if run.state != "waiting" and run.id and run.previous == run.id:
        yield f"{run.state} as {run.id}, and the same run as its previous one"
    if run.reason == "CrashLoopBackOff" and run.previous != run.id:
        yield "in CrashLoopBackOff, and its last run is not the one that ended"


def _wrong_phase(seen: PodStateSeen) -> Iterator[str]:
    regular = [run for run in seen.runs if run.kind == "regular"]
    waits = any(run.state == "waiting" and not run.previous for run in regular)
    if regular and seen.phase != ("Pending" if waits else "Running"):
        yield f"has phase {seen.phase} with {_words(seen)}"


def _initialized(seen: PodStateSeen) -> dict[str, bool]:
    """What Initialized must be, as far as it is certain."""
    if any(run.kind == "regular" and run.state == "running" for run in seen.runs):
        return {"Initialized": True}
    has_begun = any(run.kind == "regular" and (run.id or run.previous) for run in seen.runs)
    if any(run.kind == "init" and not run.ready for run in seen.runs) and not has_begun:
        return {"Initialized": False}
    return {"Initialized": True} if all(run.kind == "regular" or run.ready for run in seen.runs) else {}


def _restarts(before: PodStateSeen | None, after: PodStateSeen) -> Iterator[str]:
    """Restart counts that fall, or that change without another run."""
    old = {run.name: run for run in before.runs} if before else {}
    for run in after.runs:
        known = old.get(run.name)
        if known and run.restarts < known.restarts:
            yield f"has {run.restarts} restarts of container {run.name} after {known.restarts}"
        elif known and known.id and run.id and (run.id == known.id) != (run.restarts == known.restarts):
            runs = "another run" if run.id != known.id else "the same run"
            yield f"has {run.restarts} restarts of container {run.name} after {known.restarts}, with {runs}"
        elif known and known.id and run.restarts == known.restarts + 1 and run.previous != known.id:
            yield f"has {run.restarts} restarts of container {run.name}, and its last state is not the run before"


def _other_texts(before: PodStateSeen | None, after: PodStateSeen) -> Iterator[str]:
    """Reasons and messages that change although the containers, the phase and the conditions do not."""
    if before and after.phase == "Running" and replace(before, texts=after.texts) == after:
        for kind, text in sorted(set(after.texts) - set(before.texts)):
            where = f"condition {kind}" if kind else "a status"
            yield f"has {where} with the new text {text!r}, and nothing else changed"


def _too_early(seen: PodStateSeen, initialized: Collection[tuple[str, str]]) -> Iterator[str]:
    """Init containers that have not ended yet, although a regular container runs."""
    if any(run.kind == "regular" and run.state == "running" for run in seen.runs):
        for run in seen.runs:
            if run.kind == "init" and (seen.uid, run.name) not in initialized:
                yield f"has init container {run.name} {run.state} with {_words(seen)}"


def _words(seen: PodStateSeen) -> str:
    return ", ".join(f"{run.name} {run.state}" for run in seen.runs)
