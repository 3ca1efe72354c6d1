"""Lists in pages, and lists as they were at an earlier revision. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from drahealth.fakes.cluster.api import Object
from drahealth.fakes.cluster.api_server.list_options import Continue
from drahealth.fakes.cluster.api_server.selected_changes import Matches


@dataclass(frozen=True, slots=True)
class Selector:
    """The selectors of a request."""

    labels: Matches
    fields: Matches
    is_empty: bool
    """The request has no selector."""

    def __call__(self, obj: Object) -> bool:
        return self.labels(obj) and self.fields(obj)


@dataclass(frozen=True, slots=True)
class Page:
    """Some objects of a list at one revision, and where the next page begins; None for the last page."""

    objects: Sequence[Object]
    revision: str
    next: Continue | None = None
    remaining: int | None = None
    """The number of objects in later pages; None if the request has a selector."""


def page_of(objects: Sequence[Object], revision: int, start: Continue | None, limit: int, matches: Selector) -> Page:
    """The page after `start` of these sorted objects, with at most `limit` objects; 0 for no limit."""
    left = [obj for obj in objects if (start is None or _key(obj) > start.key) and matches(obj)]
    if not limit or len(left) <= limit:
        return Page(left, str(revision))
    page = left[:limit]
    remaining = len(left) - limit if matches.is_empty else None
    return Page(page, str(revision), Continue(revision, _key(page[-1])), remaining)


def _key(obj: Object) -> tuple[str, str]:
    return obj["metadata"].get("namespace", ""), obj["metadata"]["name"]
