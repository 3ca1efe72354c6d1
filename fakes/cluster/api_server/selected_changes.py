"""The changes of a watch with selectors. Pure.

An object that begins to match is ADDED for the watcher, and one that ceases to match is DELETED, as it was before.
"""

from collections.abc import Callable
from dataclasses import replace

from drahealth.fakes.cluster.api import Object
from drahealth.fakes.cluster.api_server.storage import Change

Matches = Callable[[Object], bool]


def everything(_: Object) -> bool:
    """Matches all objects."""
    return True


def selected(change: Change, matches: Matches) -> Change | None:
    """The change as the watcher sees it; None if it concerns no selected object."""
    if change.type == "ADDED":  # also every object at the begin of a watch
        return change if matches(change.object) else None
    before = change.before is not None and matches(change.before)
    if change.type == "DELETED":
        return change if before else None
    if matches(change.object):
        return change if before else replace(change, type="ADDED")
    return replace(change, type="DELETED", object=_before(change)) if before else None


def _before(change: Change) -> Object:
    """The object before the change, with the revision of the change."""
    assert change.before is not None
    revision = change.object["metadata"]["resourceVersion"]
    return {**change.before, "metadata": {**change.before["metadata"], "resourceVersion": revision}}
