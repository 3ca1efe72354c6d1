"""The invariants on writes of Pod statuses, and the writes in the audit log."""

import json
from pathlib import Path
from typing import Any

import pytest

from drahealth.fakes.cluster.pods import status_seen
from drahealth.proto.events import StatusWritten
from drahealth.suites.judging import invariants
from drahealth.suites.targets.audit import AuditLog, status_write
from drahealth.suites.unit.suites.histories import history, pod


def written(pod: str = "pod-1", *, changed: bool = True, error: str = "") -> StatusWritten:
    return StatusWritten(pod, f"uid-of-{pod}", changed, error)


def test_each_error_of_a_rejected_status_is_found_once() -> None:
    records = history(
        written(), written(error="Too long"), written(error="Too long"), written("pod-2", error="Too long")
    )
    assert len(list(invariants.refused(records))) == 2


def test_a_write_without_a_change_is_found_unless_it_was_rejected() -> None:
    records = history(written(), written(changed=False, error="Too long"), written("pod-2", changed=False))
    [found] = invariants.unchanged(records)
    assert "pod-2" in found


def test_unknown_keys_of_a_status_are_found() -> None:
    element = {"resourceID": "a", "health": "Healthy", "message": "", "temperature": 70}
    entries = [{"name": "claim:c/gpu", "resources": [element], "since": "today"}]
    status = {"initContainerStatuses": [{"name": "first", "allocatedResourcesStatus": entries}]}
    seen = status_seen({"metadata": {"name": "pod-1", "uid": "u"}, "status": status})
    found = list(invariants.unknown_keys(history(seen, seen, pod())))
    assert found == ["pod pod-1 showed claim:c/gpu.since", "pod pod-1 showed claim:c/gpu.a.temperature"]


def test_empty_lists_of_a_pod_and_its_containers_are_found_once() -> None:
    empty: dict[str, Any] = {"allocatedResourcesStatus": []}
    status = {**empty, "containerStatuses": [{"name": "main", **empty}, {"name": "other"}]}
    seen = status_seen({"metadata": {"name": "pod-1", "uid": "u"}, "status": status})
    found = [text.split(" had ")[0] for text in invariants.empty(history(seen, seen, pod()))]
    assert found == ["pod pod-1", "container main of pod pod-1"]


def entry(code: int = 200, user: str = "system:node:node-a", message: str = "", namespace: str = "n") -> dict[str, Any]:
    target = {
        "resource": "pods",
        "subresource": "status",
        "namespace": namespace,
        "name": "pod-1",
        "uid": "uid-of-pod-1",
    }
    target |= {"name": "pod-1", "uid": "uid-of-pod-1"}
    return {"user": {"username": user}, "objectRef": target, "responseStatus": {"code": code, "message": message}}


@pytest.mark.parametrize(
    ("logged", "expected"),
    [
        (entry(), [written()]),
        (entry(422, message="Too long"), [written(changed=False, error="Too long")]),
        (entry(409, message="Conflict"), []),
        (entry(user="system:kube-scheduler"), []),
    ],
)
def test_an_entry_of_the_audit_log_is_a_write_if_a_kubelet_made_it(
    logged: dict[str, Any], expected: list[StatusWritten]
) -> None:
    assert list(status_write(logged)) == expected


def test_audit_log_reader_returns_only_new_complete_lines(tmp_path: Path) -> None:
    path, line = tmp_path / "audit.log", json.dumps(entry())
    log = AuditLog(path)
    assert log.status_writes("n") == []
    path.write_text(f"{line}\n{line}\n{line[:20]}")
    assert len(log.status_writes("n")) == 2
    path.write_text(f"{line}\n{line}\n{line}\n{line}\n")
    assert len(log.status_writes("n")) == 2


def test_the_writes_of_a_namespace_are_those_of_its_own_pods(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    path.write_text("".join(f"{json.dumps(entry(namespace=name))}\n" for name in ("n", "other", "n")))
    log = AuditLog(path)
    assert [len(log.status_writes(name)) for name in ("n", "other", "third", "n")] == [2, 1, 0, 0]
