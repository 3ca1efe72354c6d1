"""The user's kind configuration with ours merged into it."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML

from drahealth.fakes.program.user_files import documents
from drahealth.suites.errors import ConfigurationError
from drahealth.suites.targets.kind.cluster import cluster_name, compose

HEAD = "kind: Cluster\napiVersion: kind.x-k8s.io/v1alpha4\n"
RUN = "abcd12"
MARK = {"hostPath": "/dev/null", "containerPath": f"/kind/made-by-drahealth-{RUN}", "readOnly": True}
SYNC = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nsyncFrequency: 3s\n"
GATE = "ResourceHealthStatus"


def load(text: str) -> Any:
    return YAML(typ="safe", pure=True).load(text)


def merged(user: str | None, nodes: int | None = None, **gates: bool) -> Any:
    return load(compose(user, nodes=nodes, run_id=RUN, gates=gates))


def patch(kind: str, body: str) -> str:
    lines = f"kind: {kind}\n{body}".splitlines()
    return "kubeadmConfigPatches:\n- |\n" + "".join(f"  {line}\n" for line in lines)


def operation(path: str, value: str) -> str:
    patch = f"[{{op: add, path: {path}, value: {value}}}]"
    return f"kubeadmConfigPatchesJSON6902:\n- kind: KubeletConfiguration\n  patch: |\n    {patch}\n"


def test_without_a_user_configuration_ours_is_used() -> None:
    assert merged(None, nodes=2, **{GATE: True}) == {
        "kind": "Cluster",
        "apiVersion": "kind.x-k8s.io/v1alpha4",
        "nodes": [{"role": role, "extraMounts": [MARK]} for role in ("control-plane", "worker")],
        "featureGates": {GATE: True},
        "kubeadmConfigPatches": [SYNC],
    }


def test_the_users_settings_are_kept() -> None:
    mounts = "nodes:\n- role: worker\n  extraMounts:\n  - {hostPath: /a, containerPath: /b}\n- role: control-plane\n"
    found = merged(f"{HEAD}name: mine\n{mounts}{patch('InitConfiguration', 'a: 1')}featureGates: {{Other: false}}", 2)
    assert found["name"] == "mine"
    assert [node["extraMounts"] for node in found["nodes"]] == [
        [{"hostPath": "/a", "containerPath": "/b"}, MARK],
        [MARK],
    ]
    assert found["kubeadmConfigPatches"] == [SYNC, "kind: InitConfiguration\na: 1\n"]
    assert found["featureGates"] == {"Other": False}


def test_the_users_sync_frequency_comes_after_ours_and_wins() -> None:
    found = merged(HEAD + patch("KubeletConfiguration", "syncFrequency: 1s"))["kubeadmConfigPatches"]
    assert found == [SYNC, "kind: KubeletConfiguration\nsyncFrequency: 1s\n"]


def test_nodes_that_share_their_settings_by_aliases_get_one_mark_each() -> None:
    found = merged(
        f"{HEAD}nodes:\n- &a {{role: worker, extraMounts: [&m {{hostPath: /a}}]}}\n- *a\n- <<: *a\n  role: b\n"
    )
    assert [node["extraMounts"] for node in found["nodes"]] == [[{"hostPath": "/a"}, MARK]] * 3
    assert found["nodes"][2]["role"] == "b"


def test_scalars_are_read_as_yaml_1_2_and_written_without_ambiguity() -> None:
    text = compose(f"{HEAD}networking: {{a: 'yes', b: yes, c: 0x1F, e: \"6\"}}\nfeatureGates: {{A: yes}}\n", run_id=RUN)
    assert json.loads(text)["networking"] == {"a": "yes", "b": "yes", "c": 31, "e": "6"}


@pytest.mark.parametrize("style", ["|", "|+", ">", ">-", "|2"])
def test_multi_line_texts_are_unchanged(style: str) -> None:
    said = f"{HEAD}x: {style}\n  a\n  \tb\n\n   c\n  d \n"
    assert merged(said)["x"] == load(said)["x"]


@pytest.mark.parametrize(
    "said",
    [
        f"featureGates: {{{GATE}: true}}\n",
        f"featureGates: {{{GATE}: 'on'}}\n",
        patch("KubeletConfiguration", f"featureGates: {{{GATE}: true}}"),
        patch("ClusterConfiguration", f"apiServer: {{extraArgs: {{feature-gates: '{GATE}=true,B=false'}}}}"),
        patch("ClusterConfiguration", "apiServer: {extraArgs: {feature-gates: Other=false}}"),
    ],
)
def test_a_gate_with_the_wanted_value_is_accepted(said: str) -> None:
    assert merged(HEAD + said, **{GATE: True})["featureGates"] == {GATE: True}


@pytest.mark.parametrize(
    "said",
    [
        f"featureGates: {{{GATE}: no}}\n",
        f"featureGates: {{{GATE}: maybe}}\n",
        patch("KubeletConfiguration", f"featureGates: {{{GATE}: false}}"),
        patch("ClusterConfiguration", f"apiServer: {{extraArgs: {{feature-gates: '{GATE}=false'}}}}"),
        patch("ClusterConfiguration", f"apiServer: {{extraArgs: [{{name: feature-gates, value: {GATE}=false}}]}}"),
        operation(f"/featureGates/{GATE}", "false"),
        operation("/featureGates", f"{{{GATE}: false}}"),
        operation("/apiServer/extraArgs/feature-gates", f"{GATE}=false"),
        f"nodes: [{{kubeadmConfigPatches: ['featureGates: {{{GATE}: false}}']}}]\n",
    ],
)
def test_a_gate_with_another_value_is_rejected(said: str) -> None:
    with pytest.raises(ConfigurationError, match=rf"configuration, line \d+: the feature gate {GATE} must be true"):
        compose(HEAD + said, run_id=RUN, gates={GATE: True})


@pytest.mark.parametrize(
    ("user", "sentence"),
    [
        ("", "line 1: it is empty"),
        ("# nothing\n", "line 1: it is empty"),
        ("- a\n", "line 1: it is not a mapping"),
        ("a: [\n", "line 2: "),
        ("a: 1\na: 2\n", 'line 2: invalid YAML: found duplicate key "a"'),
        ("? [a]\n: 1\n", "line 1: it has no `kind: Cluster`"),
        ("kind: Cluster\n", "line 1: it has no `apiVersion: kind.x-k8s.io/v1alpha4`"),
        ("apiVersion: v1\nkind: Pod\n", "line 2: its kind is 'Pod', not Cluster"),
        ("kind: Cluster\napiVersion: v1\n", "line 2: its apiVersion is 'v1', not kind.x-k8s.io/v1alpha4"),
        (f"{HEAD}---\n{HEAD}", "line 4: a second document begins"),
        (f"{HEAD}nodes: 3\n", "line 3: nodes is not a list"),
        (f"{HEAD}nodes:\n- a\n", "line 4: a node is not a mapping"),
        (f"{HEAD}nodes:\n- extraMounts: a\n", "line 4: extraMounts is not a list"),
        (f"{HEAD}featureGates: [a]\n", "line 3: featureGates is not a mapping"),
        (f"{HEAD}kubeadmConfigPatches: a\n", "line 3: kubeadmConfigPatches is not a list"),
        (f"{HEAD}kubeadmConfigPatches:\n- kind: A\n", "line 4: an item of kubeadmConfigPatches is not a string"),
        (f"{HEAD}kubeadmConfigPatches: ['a: [']\n", r"line 3: .* invalid YAML \("),
        (
            f"{HEAD}nodes: [{{extraMounts: [{{containerPath: /kind/made-by-drahealth-0}}]}}]\n",
            "line 3: .* is reserved",
        ),
        ("a: *b\n", "line 1: invalid YAML: found undefined alias 'b'"),
        ("&a [*a]\n", "line 1: the document has more than 60 levels"),
        ("a: {<<: 1}\n", "line 1: invalid YAML: expected a mapping"),
        ("[" * 1000, "line 1: invalid YAML: maximum recursion depth"),
        ("\x00", "line 1: invalid YAML: unacceptable character"),
    ],
)
def test_an_invalid_configuration_is_rejected_with_its_line(user: str, sentence: str) -> None:
    with pytest.raises(ConfigurationError, match=f"^The kind configuration, {sentence}"):
        compose(user, run_id=RUN)


def test_aliases_cannot_fill_the_memory() -> None:
    layers = [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 9)]
    with pytest.raises(ConfigurationError, match="the document has more than 100000 entries"):
        compose("\n".join(["a0: &a0 x", *layers]), run_id=RUN)


def test_another_number_of_nodes_is_rejected() -> None:
    with pytest.raises(ConfigurationError, match=r"line 4: .* --nodes is 2"):
        compose(f"{HEAD}nodes:\n- role: control-plane\n", nodes=2, run_id=RUN)


def test_a_cluster_needs_a_node() -> None:
    with pytest.raises(ConfigurationError, match=r"^--nodes .* got 0$"):
        compose(None, nodes=0, run_id=RUN)


def test_the_name_of_a_configuration_is_read() -> None:
    assert [cluster_name(HEAD), cluster_name(f"{HEAD}name: mine\n")] == [None, "mine"]


SNIPPETS = (
    *("yes", "'no'", "0x1F", "010", "1_0", "~", '"a\\nb: c"', "2001-01-01", "[]", "{}", "[1, ~, a]", "{a: b}", "&x c"),
    *("*x", "*y", "!t u", "!!str 1", ".5", "1e3", "|\n   x\n    y\n", ">-\n   x\n\n   y\n", ">\n x\n  y", "a b", "- a"),
    *("<<", "'", "é", f"{{<<: {{{GATE}: true}}}}", "[{role: worker}, {}]", "&y [{extraMounts: ~}]", "['kind: A']"),
)
KEYS = ("name", "nodes", "featureGates", "networking", "kubeadmConfigPatches", "<<", "'name'", "? a", "x")
LINES = st.lists(st.tuples(st.sampled_from(KEYS), st.sampled_from(SNIPPETS)).map(": ".join), max_size=6)


@given(st.one_of(st.text(), LINES.map(lambda lines: HEAD + "\n".join(lines)), st.text().map(HEAD.__add__)))
@settings(max_examples=150, deadline=None)
def test_any_text_is_rejected_or_kept(user: str) -> None:
    try:
        text = compose(user, run_id=RUN, gates={GATE: True})
    except ConfigurationError as error:
        lines = str(error).splitlines()
    else:
        lines = [""]
        assert_kept(data_of(user), json.loads(text))
    assert len(lines) == 1


TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Zl", "Zp"]), max_size=8)
SCALARS = st.one_of(st.none(), st.booleans(), st.integers(), TEXTS)
VALUES = st.recursive(SCALARS, lambda v: st.lists(v, max_size=3) | st.dictionaries(TEXTS, v, max_size=3))
NODES = st.fixed_dictionaries(
    {},
    optional={
        "role": VALUES,
        "image": VALUES,
        "labels": VALUES,
        "extraMounts": st.none() | st.lists(VALUES, max_size=2),
    },
)
CLUSTERS = st.fixed_dictionaries(
    {"kind": st.just("Cluster"), "apiVersion": st.just("kind.x-k8s.io/v1alpha4")},
    optional={
        "nodes": st.none() | st.lists(NODES, max_size=3),
        "networking": VALUES,
        "featureGates": st.none() | st.dictionaries(TEXTS, st.booleans(), max_size=3),
        "kubeadmConfigPatches": st.none() | st.lists(st.just("kind: A\nb: c\n"), max_size=2),
    },
)


@given(CLUSTERS, st.booleans())
@settings(max_examples=60, deadline=None)
def test_every_good_configuration_is_kept(user: dict[str, Any], indented: bool) -> None:
    text = compose(json.dumps(user, ensure_ascii=False, indent=1 if indented else None), run_id=RUN, gates={GATE: True})
    assert_kept(user, load(text))
    assert all(node["extraMounts"][-1] == MARK for node in load(text)["nodes"])


def data_of(text: str) -> Any:
    return next(documents(text, "")).data


def assert_kept(user: Any, found: Any) -> None:
    """All that the user says is there, in its place; a list may have got one item more, at an end."""
    if isinstance(user, dict) and isinstance(found, dict):
        for key, value in user.items():
            assert key in found
            assert_kept(value, found[key])
    elif isinstance(user, list) and isinstance(found, list) and user:
        ends = (found[: len(user)], found[len(found) - len(user) :])
        assert len(found) - len(user) in (0, 1)
        assert any(is_kept(user, end) for end in ends)
    elif user is not None and user != []:
        assert user == found


def is_kept(user: list[Any], found: list[Any]) -> bool:
    try:
        for mine, theirs in zip(user, found, strict=True):
            assert_kept(mine, theirs)
    except AssertionError:
        return False
    return True
