"""Revisions, watchers and copies of the in-memory API server."""

from hypothesis import given
from hypothesis import strategies as st

from drahealth.fakes.cluster.api import NODES, Object
from drahealth.fakes.cluster.api_server.storage import Changes, Storage, copied

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
)


def node(name: str, number: int = 0) -> Object:
    return {"metadata": {"name": name}, "number": number}


def taken(changes: Changes) -> list[tuple[int, str, str]]:
    """What waits in the queue: revision, type and name."""
    waiting = [changes.get_nowait() for _ in range(changes.qsize())]
    return [(c.revision, c.type, c.object["metadata"]["name"]) for c in waiting if c is not None]


@given(JSON)
def test_a_copy_is_equal_and_shares_nothing_that_can_change(value: object) -> None:
    copy = copied(value)
    assert copy == value
    assert not isinstance(value, dict | list) or copy is not value


async def test_every_write_has_a_revision_of_its_own_and_leaves_the_older_object_as_it_was() -> None:
    storage = Storage()
    first = storage.put(NODES, node("a"))
    second = storage.put(NODES, node("a", 1))
    assert [first["metadata"]["resourceVersion"], second["metadata"]["resourceVersion"]] == ["1", "2"]
    assert (first["number"], second["number"]) == (0, 1)


@given(st.lists(st.sampled_from("abc"), max_size=20), st.integers(0, 20))
async def test_watch_from_any_revision_sees_exactly_the_later_changes(names: list[str], since: int) -> None:
    storage, told = Storage(), []
    with storage.watching(NODES, None, None) as whole:
        for name in names:
            if stored := storage.get(NODES, ("", name)):
                storage.remove(NODES, stored)
            else:
                storage.put(NODES, node(name))
        told = taken(whole)
    assert [revision for revision, _, _ in told] == list(range(1, len(names) + 1))
    with storage.watching(NODES, None, since) as late:
        assert taken(late) == told[since:]


async def test_ended_watch_receives_no_changes() -> None:
    storage = Storage()
    with storage.watching(NODES, None, None) as changes:
        storage.put(NODES, node("a"))
    storage.put(NODES, node("b"))
    assert taken(changes) == [(1, "ADDED", "a")]


async def test_watch_ends_after_its_pending_changes() -> None:
    storage = Storage()
    with storage.watching(NODES, None, None) as changes:
        storage.put(NODES, node("a"))
        storage.end_watches()
        storage.put(NODES, node("b"))
        assert [await changes.get() is None for _ in range(2)] == [False, True]
        assert changes.empty()
