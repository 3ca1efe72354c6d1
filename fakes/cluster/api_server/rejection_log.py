"""Log lines about requests that the API server cannot read. Clients retry forever, so each cause is logged once."""

import logging
import re
from collections import OrderedDict

from drahealth.fakes.cluster.api import ApiError

STATUSES = frozenset({400, 401, 405, 413, 415})
"""The HTTP statuses of requests that cannot be read or are not supported."""

_REMEMBERED = 1000
_RESOURCE = re.compile(r" /(?:api|apis)/(v1|[^/]+/[^/]+)/(?:namespaces/[^/]+/)?([^/]+)")

log = logging.getLogger(__name__)


class RejectionLog:
    """Logs each cause once for each client. It remembers the last 1000 pairs."""

    def __init__(self) -> None:
        self._seen: OrderedDict[tuple[str, str], None] = OrderedDict()

    def rejected(self, client: str, request: str, error: ApiError) -> None:
        """Logs a rejected request, such as `POST /api/v1/nodes`, if it could not be read."""
        if error.status in STATUSES and self._is_new(client, _cause(request, error)):
            log.warning("rejected %s from %s: %s %s", request, client, error.status, error.message)

    def not_served(self, client: str, request: str) -> None:
        """Logs a request for a resource that is not served; other unknown paths are probes of kubectl."""
        if (found := _RESOURCE.search(request)) and self._is_new(client, found.expand(r"\1/\2")):
            log.warning(
                "rejected %s from %s: 404, %s of %s are not served; use a real API server for them",
                request,
                client,
                found[2],
                found[1],
            )

    def ignored(self, client: str, request: str, fields: tuple[str, ...]) -> None:
        """Logs the unknown fields of a request that was accepted without them."""
        names = ", ".join(fields[:10])
        if self._is_new(client, names):
            log.warning("ignored unknown fields of %s from %s: %s", request, client, names)

    def _is_new(self, client: str, cause: str) -> bool:
        is_new = (client, cause) not in self._seen
        self._seen[client, cause] = None
        self._seen.move_to_end((client, cause))
        if len(self._seen) > _REMEMBERED:
            self._seen.popitem(last=False)
        return is_new


def _cause(request: str, error: ApiError) -> str:
    """What is wrong, without the names and numbers that differ in each request."""
    what = request.partition(" ")[0] if error.status == 405 else error.message.partition(":")[0]
    return f"{error.status} {what}"
