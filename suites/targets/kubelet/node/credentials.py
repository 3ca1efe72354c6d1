"""Credentials for the API server of one run: static tokens, kubeconfigs, and the key of the service accounts.

Every component has its own user, so that the records of the API server name it. All users are in `system:masters`: the
API server makes RBAC roles only after its start, and no component should wait for them.
"""

import base64
import json
import secrets
from collections.abc import Iterable, Mapping
from typing import Any

from drahealth.fakes.program.atomic import replace_file
from drahealth.suites.targets.kubelet.node.layout import Layout

ADMIN = "admin"
SCHEDULER = "kube-scheduler"
CONTROLLER_MANAGER = "kube-controller-manager"
KUBELET = "kubelet"


def write(layout: Layout, server: str, node_name: str) -> str:
    """Writes all files and returns the token of the administrator; `server` is the URL of the API server."""
    users = {
        ADMIN: "drahealth:admin",
        SCHEDULER: "system:kube-scheduler",
        CONTROLLER_MANAGER: "system:kube-controller-manager",
        KUBELET: f"system:node:{node_name}",
    }
    tokens = {name: secrets.token_hex(16) for name in users}
    layout.tokens.write_text(token_file((tokens[name], user) for name, user in users.items()), encoding="utf-8")
    for name, token in tokens.items():
        layout.kubeconfig(name).write_text(json.dumps(kubeconfig(server, token), indent=1), encoding="utf-8")
    layout.service_account_key.write_text(signing_key(secrets.token_bytes(32)), encoding="utf-8")
    return tokens[ADMIN]


def keep_admin(layout: Layout) -> str:
    """The token of an administrator, who is the only user; writes what is missing and keeps what is there."""
    if not layout.service_account_key.exists():
        replace_file(layout.service_account_key, signing_key(secrets.token_bytes(32)).encode())
    if not layout.tokens.exists():
        replace_file(layout.tokens, token_file([(secrets.token_hex(16), "drahealth:admin")]).encode())
    return layout.tokens.read_text(encoding="utf-8").partition(",")[0]


def token_file(users: Iterable[tuple[str, str]]) -> str:
    """The text for --token-auth-file: token, user, uid, groups."""
    return "".join(f'{token},{user},{user},"system:masters"\n' for token, user in users)


def kubeconfig(server: str, token: str) -> Mapping[str, Any]:
    """A kubeconfig of one user, without the certificate of the server, which makes it when it starts."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "local", "cluster": {"server": server, "insecure-skip-tls-verify": True}}],
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
