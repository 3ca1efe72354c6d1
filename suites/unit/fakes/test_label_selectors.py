"""Label selectors."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drahealth.fakes.cluster.api import ApiError, Object
from drahealth.fakes.cluster.api_server.lists import label_selector

LABELS = {"app": "train", "example.com/tier": "web", "gpus": "4", "empty": ""}
POD: Object = {"metadata": {"name": "train", "labels": LABELS}}

KEYS, VALUES = st.sampled_from(["a", "b", "x/c", "in", "notin"]), st.sampled_from(["", "1", "v", "in"])


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        ("", True),
        ("  ", True),
        ("app=train", True),
        ("app==train, example.com/tier = web", True),
        ("app=train,gpus=5", False),
        ("app!=train", False),
        ("absent!=train", True),
        ("app", True),
        ("absent", False),
        ("!absent", True),
        ("! app", False),
        ("app in (web,train)", True),
        ("app in(web)", False),
        ("app notin (web)", True),
        ("app notin ( web , train )", False),
        ("absent notin (web)", True),
        ("empty", True),
        ("empty=", True),
        ("empty in ()", True),
        ("app=", False),
        ("gpus>3", True),
        ("gpus<4", False),
        ("app>3", False),
        ("absent<3", False),
    ],
)
def test_an_object_matches_if_all_requirements_do(text: str, matches: bool) -> None:
    assert label_selector(text)(POD) is matches


@pytest.mark.parametrize("labels", [{}, {"labels": None}, {"labels": {}}])
def test_object_without_labels_matches_only_negative_requirements(labels: Object) -> None:
    obj = {"metadata": labels}
    assert [label_selector(text)(obj) for text in ("a", "!a", "a=1", "a!=1")] == [False, True, False, True]


@pytest.mark.parametrize(
    "text",
    [
        *("a b", "=x", "a=b=c", "a,", ",a", "a in", "a in b", "a in (b", "a in (b c)", "a=b c", "!a=b", "a=-", "-a"),
        *("a>x", "A.example.com/a/b=c", "a=" + "x" * 64, "x" * 64, "a in (b)c"),
    ],
)
def test_invalid_selector_is_rejected(text: str) -> None:
    with pytest.raises(ApiError) as refusal:
        label_selector(text)
    assert (refusal.value.status, refusal.value.reason) == (400, "BadRequest")


@given(labels=st.dictionaries(KEYS, VALUES), key=KEYS, values=st.lists(VALUES, min_size=1))
def test_sets_and_equality_agree(labels: dict[str, str], key: str, values: list[str]) -> None:
    obj = {"metadata": {"labels": labels}}
    listed = f"({','.join(values)})"
    is_in = label_selector(f"{key} in {listed}")(obj)
    assert is_in is any(label_selector(f"{key}={value}")(obj) for value in values)
    assert is_in is (labels.get(key) in values)
    assert label_selector(f"{key} notin {listed}")(obj) is not is_in


@given(labels=st.dictionaries(KEYS, VALUES), terms=st.lists(st.tuples(KEYS, VALUES), min_size=1))
def test_a_comma_means_and(labels: dict[str, str], terms: list[tuple[str, str]]) -> None:
    obj: dict[str, Any] = {"metadata": {"labels": labels}}
    text = ",".join(f"{key}={value}" for key, value in terms)
    assert label_selector(text)(obj) is all(labels.get(key) == value for key, value in terms)


@given(st.text(alphabet="ab=!,() <>in.-/1", max_size=30))
def test_any_text_is_a_selector_or_a_bad_request(text: str) -> None:
    answer: object
    try:
        answer = label_selector(text)(POD)
    except ApiError as error:
        answer = error.status
    assert answer in (True, False, 400)
