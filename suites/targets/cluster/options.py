"""The options of the cluster target."""

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from drahealth.suites.errors import ConfigurationError
from drahealth.suites.targets.option import (
    DRIVER_BASE,
    DRIVER_IMAGE,
    Option,
    Values,
    choice,
    matching,
    readable_file,
    text,
)
from drahealth.suites.targets.pods import KUBELET_DIR, NAMESPACE

_LABEL = re.compile(r"([A-Za-z0-9]([A-Za-z0-9._/-]*[A-Za-z0-9])?)=([A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?)?")
_TOLERATION = re.compile(
    r"(?P<key>[^=:\s]+)(=(?P<value>[^=:\s]*))?(:(?P<effect>NoSchedule|PreferNoSchedule|NoExecute))?"
)


def _selector(value: str) -> Mapping[str, str]:
    parts = [_LABEL.fullmatch(part) for part in value.split(",")]
    if None in parts:
        raise ValueError("must be KEY=VALUE,...")
    return {part[1]: part[3] or "" for part in parts if part}


def _tolerations(value: str) -> tuple[Mapping[str, str], ...]:
    found = []
    for part in value.split(","):
        match = _TOLERATION.fullmatch(part)
        if match is None:
            raise ValueError("must be KEY[=VALUE][:EFFECT],...")
        given = {name: text for name, text in match.groupdict().items() if text is not None}
        found.append({"operator": "Equal" if "value" in given else "Exists", **given})
    return tuple(found)


def _docker_config(name: str) -> Path:
    path = readable_file(name)
    try:
        is_one = isinstance(json.loads(path.read_bytes())["auths"], dict)
    except (ValueError, KeyError, TypeError):
        is_one = False
    if not is_one:
        raise ValueError("must be a JSON file with `auths`, as `docker login` writes it")
    return path


KUBECONFIG = Option(
    "kubeconfig", "FILE", "The cluster; default: $KUBECONFIG, or ~/.kube/config.", readable_file, ("run", "doctor")
)
CONTEXT = Option("context", "NAME", "Context of the kubeconfig; default: its current one.", text, ("run", "doctor"))
NAMESPACE_PREFIX = Option(
    "namespace",
    "PREFIX",
    f"Namespace of the fake driver; those of scenarios are PREFIX-XXXXXXXX. Default: {NAMESPACE}.",
    matching(r"[a-z0-9]([a-z0-9-]{0,40}[a-z0-9])?", "lower-case letters, digits and hyphens"),
)
NODE_SELECTOR = Option(
    "node-selector",
    "KEY=VALUE,...",
    "Labels of the nodes to use; default: all Ready nodes that accept Pods.",
    _selector,
)
TOLERATIONS = Option(
    "tolerations",
    "KEY[=VALUE][:EFFECT],...",
    "Tolerations of the Pods of scenarios. The Pods of the fake driver tolerate every taint.",
    _tolerations,
)
ON = Option(
    "on",
    "NODES",
    "`any` (default): each scenario runs once, on any node. `each`: on each node, and each node is judged by itself.",
    choice("any", "each"),
    choices=lambda: ("any", "each"),
)
KUBELET_DIR_OPTION = Option(
    "kubelet-dir",
    "DIR",
    f"Root directory of the kubelets; default: {KUBELET_DIR}.",
    matching(r"/[A-Za-z0-9._/-]+", "an absolute path"),
)
PUSH = Option(
    "push-to",
    "PREFIX",
    "Build the image of the fake driver, and push it to PREFIX/drahealth-driver.",
    matching(r"[a-z0-9][A-Za-z0-9.:/_-]*", "a registry with a path, such as registry.example.com/team"),
)
LOAD = Option(
    "load-command",
    "COMMAND",
    "Build the image of the fake driver, and run COMMAND IMAGE, which loads it to the nodes, such as "
    "'kind load docker-image --name NAME'.",
    text,
)
PULL_CONFIG = Option(
    "pull-config",
    "FILE",
    "JSON file of `docker login`, with the credentials for the image; Secrets in the namespaces of the run have it.",
    _docker_config,
)
RESTART = Option(
    "restart-kubelet-command",
    "COMMAND",
    "Shell command that kills and starts the kubelet of the node $NODE, such as 'ssh $NODE sudo systemctl restart "
    "kubelet'. Without it, scenarios that need this are not applicable.",
    text,
)

OPTIONS: tuple[Option[Any], ...] = (
    KUBECONFIG,
    CONTEXT,
    NAMESPACE_PREFIX,
    NODE_SELECTOR,
    TOLERATIONS,
    ON,
    KUBELET_DIR_OPTION,
    DRIVER_IMAGE,
    DRIVER_BASE,
    PUSH,
    LOAD,
    PULL_CONFIG,
    RESTART,
)
_IMAGES = (DRIVER_IMAGE, PUSH, LOAD)


@dataclass(frozen=True, slots=True)
class ClusterOptions:
    """Checked. `texts` are the options as they were given, by name."""

    kubeconfig: Path | None = None
    context: str | None = None
    namespace: str = NAMESPACE
    node_selector: Mapping[str, str] = field(default_factory=dict)
    tolerations: tuple[Mapping[str, str], ...] = ()
    judges_each_node: bool = False
    """Each scenario runs on each node."""
    kubelet_dir: str = KUBELET_DIR
    driver_image: str | None = None
    driver_base: str | None = None
    push_to: str | None = None
    load_command: str | None = None
    pull_config: Path | None = None
    restart_command: str | None = None
    texts: Mapping[str, str] = field(default_factory=dict)

    @property
    def path(self) -> Path:
        """The kubeconfig, as kubectl finds it. Raises ConfigurationError for several."""
        from drahealth.fakes.cluster.access import kubectl_config  # only here: options are listed without it

        named = os.environ.get("KUBECONFIG", "")
        if self.kubeconfig is None and os.pathsep in named:
            raise ConfigurationError(f"KUBECONFIG names several files: {named}", "pass one of them with --kubeconfig")
        return self.kubeconfig or kubectl_config()

    @property
    def has_image(self) -> bool:
        """Whether it says where the image of the fake driver is from."""
        return bool(self.driver_image or self.push_to or self.load_command)

    def docker_config(self, image: str) -> str:
        """The JSON text of a Secret with the credentials for the registry of the image; empty without credentials.

        Raises ConfigurationError if the file of the user has none for it.
        """
        if self.pull_config is None:
            return ""
        first = image.partition("/")[0]
        registry = first if {".", ":"} & set(first) or first == "localhost" else "index.docker.io"
        auths = json.loads(self.pull_config.read_bytes())["auths"]
        found = {name: one for name, one in auths.items() if one and registry in name.split("/")}
        if not found:
            raise ConfigurationError(
                f"--pull-config {self.pull_config} has no credentials for {registry}",
                "log in with `docker login` without a credential store",
            )
        return json.dumps({"auths": found})

    @classmethod
    def of(cls, values: Values) -> "ClusterOptions":
        """From the options of a run. Raises ConfigurationError for two that exclude each other."""
        images = [option for option in _IMAGES if values.get(option)]
        if len(images) > 1:
            raise ConfigurationError(
                f"--{images[0].name} and --{images[1].name} exclude each other", "remove one of them"
            )
        if values.get(DRIVER_IMAGE) and values.get(DRIVER_BASE):
            raise ConfigurationError(
                f"--{DRIVER_BASE.name} and --{DRIVER_IMAGE.name} exclude each other: no image is built with the latter",
                "remove one of them",
            )
        return cls(
            kubeconfig=values.get(KUBECONFIG),
            context=values.get(CONTEXT),
            namespace=values.get(NAMESPACE_PREFIX) or NAMESPACE,
            node_selector=values.get(NODE_SELECTOR) or {},
            tolerations=values.get(TOLERATIONS) or (),
            judges_each_node=values.get(ON) == "each",
            kubelet_dir=values.get(KUBELET_DIR_OPTION) or KUBELET_DIR,
            driver_image=values.get(DRIVER_IMAGE),
            driver_base=values.get(DRIVER_BASE),
            push_to=values.get(PUSH),
            load_command=values.get(LOAD),
            pull_config=values.get(PULL_CONFIG),
            restart_command=values.get(RESTART),
            texts={option.name: text for option in OPTIONS if (text := values.text_of(option))},
        )
