"""The audit log of the API server: the writes of Pod statuses by kubelets."""

import json
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from drahealth.proto.events import StatusWritten

POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {
            "level": "Metadata",
            "verbs": ["patch", "update"],
            "resources": [{"group": "", "resources": ["pods/status"]}],
            "userGroups": ["system:authenticated"],
        },
        {"level": "None"},
    ],
}
"""The policy of the API server, of kind audit.k8s.io/v1 Policy."""

KUBELETS = "system:node:"
"""The beginning of the names of kubelets."""
_INVALID = (400, 413, 422)
"""Codes of requests that are wrong in themselves. Conflicts, for example, are not."""


class AuditLog:
    """The audit log at `path`, one JSON object a line. `writer` begins the names of the users that are kubelets."""

    def __init__(self, path: Path, writer: str = KUBELETS) -> None:
        self._path = path
        self._writer = writer
        self._read = 0
        self._writes: defaultdict[str, list[StatusWritten]] = defaultdict(list)

    def status_writes(self, namespace: str) -> list["StatusWritten"]:
        """The writes of Pod statuses in this namespace since the last call for it."""
        self._read_on()
        return self._writes.pop(namespace, [])

    def _read_on(self) -> None:
        if not self._path.exists():
            return
        with self._path.open("rb") as log:
            log.seek(self._read)
            for line in log:
                if not line.endswith(b"\n"):
                    return  # the API server is writing it
                self._read += len(line)
                entry = json.loads(line)
                self._writes[entry["objectRef"].get("namespace", "")] += status_write(entry, self._writer)


def status_write(entry: dict[str, Any], writer: str = KUBELETS) -> Iterator["StatusWritten"]:
    """The write that an entry of the log describes, if a kubelet made it. `writer` as in `AuditLog`.

    Kubelets do not send unchanged statuses, so each accepted write counts as a change.
    """
    from drahealth.proto.events import StatusWritten  # an API server can start before this is imported

    code = entry.get("responseStatus", {}).get("code", 0)
    if not entry["user"]["username"].startswith(writer) or (code >= 300 and code not in _INVALID):
        return
    target, error = entry["objectRef"], entry["responseStatus"].get("message", "") if code >= 300 else ""
    yield StatusWritten(target.get("name", ""), target.get("uid", ""), not error, error)
