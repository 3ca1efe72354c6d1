"""The comparison of answers: differences, accepted differences, and the form in which answers are compared."""

from api_answers.comparison import (
    ABSENT,
    Accepted,
    Answer,
    Difference,
    Normal,
    accepted,
    differences,
    unexplained,
    unused,
)

UIDS = ("5c8e8132-d7d1-411d-a872-d005124ca78c", "2198a6f4-afa8-4226-9eec-689f26b0d14e")


def answer(**metadata: object) -> Answer:
    return Answer(200, {}, {"metadata": metadata})


def test_smallest_differing_parts_are_named() -> None:
    ours = {"status": 200, "body": {"a": [1, 2], "b": 1, "same": {}}}
    theirs = {"status": 200, "body": {"a": [1, 3], "c": None, "same": {}}}
    assert list(differences("s/get", ours, theirs)) == [
        Difference("s/get", "body.a.1", 2, 3),
        Difference("s/get", "body.b", 1, ABSENT),
        Difference("s/get", "body.c", ABSENT, None),
    ]


def test_true_is_not_one() -> None:
    assert list(differences("s/get", {"a": True}, {"a": 1})) == [Difference("s/get", "a", True, 1)]


def test_each_difference_and_each_reason_needs_the_other() -> None:
    found = [Difference("life-pods/get", "body.spec", 1, 2), Difference("wrong-pods/get", "status", 200, 404)]
    known = [Accepted("life-*/get", "body.spec", "a reason"), Accepted("life-*/get", "status", "a reason")]
    assert (unexplained(found, known), unused(found, known)) == (found[1:], known[1:])


def test_shipped_differences_are_narrow_and_have_a_reason() -> None:
    known = accepted()
    assert all(entry.reason.endswith(".") for entry in known)
    assert [entry for entry in known if entry.at.strip("*.") in ("", "body")] == []


def test_values_of_the_server_are_compared_by_relation() -> None:
    normal = Normal()
    first = normal.answer(answer(uid=UIDS[0], resourceVersion="17", creationTimestamp="2026-01-01T00:00:00Z"))
    second = normal.answer(answer(uid=UIDS[1], resourceVersion="40", name="generated-b4xz2"))
    older = normal.answer(answer(uid=UIDS[0], resourceVersion="3"))
    metadata = [one["body"]["metadata"] for one in (first, second, older)]
    assert metadata[0] == {"uid": "uid 1", "resourceVersion": "revision 1", "creationTimestamp": "TIME"}
    assert metadata[1] == {"uid": "uid 2", "resourceVersion": "revision 2", "name": "generated-XXXXX"}
    assert metadata[2] == {"uid": "uid 1", "resourceVersion": "revision 3 (older)"}


def test_revision_of_a_list_is_that_of_the_whole_server() -> None:
    body = {"metadata": {"resourceVersion": "99", "continue": "abc", "remainingItemCount": 1}, "items": []}
    compared = Normal().answer(Answer(200, {}, body))["body"]["metadata"]
    assert compared == {"resourceVersion": "RESOURCEVERSION", "continue": "CONTINUE", "remainingItemCount": 1}
