"""The option `--api-server` and its values."""

from typing import Literal, get_args

from drahealth.manager.releases import DEFAULT_VERSION
from drahealth.suites.targets.option import Option, choice

ApiServerKind = Literal["memory", "real"]
"""memory: an API server in this process. real: kube-apiserver and etcd on this machine."""


DEFAULT_KUBERNETES = DEFAULT_VERSION
"""The default release of a real API server."""


API_SERVER = Option(
    "api-server",
    "KIND",
    "API server of the reference: memory (default) or real (kube-apiserver and etcd).",
    choice(*get_args(ApiServerKind)),
)
