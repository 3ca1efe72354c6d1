"""Credentials for the API server of one run: static tokens, certificates, kubeconfigs, and the key of the service
accounts.

Every component has its own user, so that the records of the API server name it. All users are in `system:masters`: the
API server makes RBAC roles only after its start, and no component should wait for them.
"""

import base64
import json
import secrets
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from drahealth.fakes.program.atomic import replace_file
from drahealth.suites.targets.kubelet.node.certificates import (
    ADMIN_USER,
    keep_client_certificates,
    keep_kubelet_certificate,
    keep_server_certificate,
)
from drahealth.suites.targets.kubelet.node.layout import Layout

ADMIN = "admin"
SCHEDULER = "kube-scheduler"
CONTROLLER_MANAGER = "kube-controller-manager"
KUBELET = "kubelet"


def write(layout: Layout, server: str, node_name: str) -> str:
    """Writes the kubeconfigs and returns the token of the administrator; `server` is the URL of the API server.

    Tokens, keys and certificates of an earlier start stay.
    """
    users = {
        ADMIN: ADMIN_USER,
        SCHEDULER: "system:kube-scheduler",
        CONTROLLER_MANAGER: "system:kube-controller-manager",
        KUBELET: f"system:node:{node_name}",
    }
    keep_client_certificates(layout)
    keep_server_certificate(layout)
    keep_kubelet_certificate(layout, node_name)
    _keep(layout.service_account_key, lambda: signing_key(secrets.token_bytes(32)))
    _keep(layout.tokens, lambda: token_file((secrets.token_hex(16), user) for user in users.values()))
    tokens = dict(zip(users, _tokens(layout), strict=True))
    for name, token in tokens.items():
        replace_file(layout.kubeconfig(name), json.dumps(kubeconfig(server, token, layout), indent=1).encode())
    return tokens[ADMIN]


def keep_admin(layout: Layout) -> str:
    """The token of an administrator, who is the only user; writes what is missing and keeps what is there."""
    keep_server_certificate(layout)
    _keep(layout.service_account_key, lambda: signing_key(secrets.token_bytes(32)))
    _keep(layout.tokens, lambda: token_file([(secrets.token_hex(16), ADMIN_USER)]))
    return _tokens(layout)[0]


def _keep(path: Path, make: Callable[[], str]) -> None:
    if not path.exists():
        replace_file(path, make().encode())


def _tokens(layout: Layout) -> list[str]:
    return [line.partition(",")[0] for line in layout.tokens.read_text(encoding="utf-8").splitlines()]


def certificate_kubeconfig(layout: Layout, server: str, name: str) -> Mapping[str, Any]:
    """A kubeconfig with the administrator's client certificate, for a running API server; `name` is its context."""
    certificate, key = layout.admin_certificate
    cluster = {"server": server, "certificate-authority-data": _base64(layout.server_certificate)}
    user = {"client-certificate-data": _base64(certificate), "client-key-data": _base64(key)}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": cluster}],
        "users": [{"name": name, "user": user}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name, "namespace": "default"}}],
        "current-context": name,
    }


def _base64(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()


def token_file(users: Iterable[tuple[str, str]]) -> str:
    """The text for --token-auth-file: token, user, uid, groups."""
    return "".join(f'{token},{user},{user},"system:masters"\n' for token, user in users)


def kubeconfig(server: str, token: str, layout: Layout | None = None) -> Mapping[str, Any]:
    """A kubeconfig of one user. Without the layout, clients do not check the certificate of the server."""
    cluster: dict[str, Any] = {"server": server}
    if layout:
        cluster["certificate-authority-data"] = _base64(layout.server_certificate)
    else:
        cluster["insecure-skip-tls-verify"] = True
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "local", "cluster": cluster}],
        "users": [{"name": "local", "user": {"token": token}}],
        "contexts": [{"name": "local", "context": {"cluster": "local", "user": "local"}}],
        "current-context": "local",
    }


def signing_key(scalar: bytes) -> str:
    """The PEM of an EC private key on P-256 (RFC 5915) from its 32 random bytes. Readers compute the public key."""
    oid_p256 = bytes.fromhex("06082a8648ce3d030107")
    body = b"\x02\x01\x01" + b"\x04\x20" + scalar + b"\xa0" + bytes([len(oid_p256)]) + oid_p256
    text = base64.encodebytes(b"\x30" + bytes([len(body)]) + body).decode()
    return f"-----BEGIN EC PRIVATE KEY-----\n{text}-----END EC PRIVATE KEY-----\n"
