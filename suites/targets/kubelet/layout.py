"""The folder of one run: its paths, certificates, tokens and kubeconfigs, and what its processes see of the machine."""

import base64
import json
import os
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from drahealth.fakes.program.private_files import replace_file
from drahealth.suites.processes.mounts import MountPlan

_RESOLUTION = {
    "hosts": "127.0.0.1 localhost {nodes}\n",
    "resolv.conf": "nameserver 127.255.255.254\n",  # refuses at once, where a lost network would let a kubelet wait
}
"""Files of the run that are mounted in /etc, and their content, with the names of the nodes."""
_HOME = "/var/lib/kubelet"


@dataclass(frozen=True, slots=True)
class Layout:
    """The paths of one run; `root` is its folder."""

    root: Path

    @property
    def kubelet_root(self) -> Path:
        """The --root-dir of the kubelet. Its name has one letter because it contains sockets with long names."""
        return self.root / "k"

    @property
    def plugins_dir(self) -> Path:
        """The folder for the folders and sockets of DRA drivers."""
        return self.kubelet_root / "plugins"

    @property
    def registry_dir(self) -> Path:
        """The folder for the registration sockets of DRA drivers."""
        return self.kubelet_root / "plugins_registry"

    @property
    def device_plugins_dir(self) -> Path:
        """The folder for `kubelet.sock` and the sockets of device plugins."""
        return self.root / "device-plugins"

    @property
    def pod_logs_dir(self) -> Path:
        """The podLogsDir of the kubelet."""
        return self.root / "pod-logs"

    @property
    def static_pods_dir(self) -> Path:
        """The staticPodPath of the kubelet."""
        return self.root / "static-pods"

    @property
    def pki_dir(self) -> Path:
        """Keys and certificates."""
        return self.root / "pki"

    @property
    def etcd_dir(self) -> Path:
        """The data of etcd."""
        return self.root / "etcd"

    @property
    def logs_dir(self) -> Path:
        """The folder of the logs, one for each component."""
        return self.root / "logs"

    @property
    def temporary_dir(self) -> Path:
        """TMPDIR of the components."""
        return self.root / "tmp"

    @property
    def tokens(self) -> Path:
        """The static tokens of the API server."""
        return self.root / "pki" / "tokens.csv"

    @property
    def service_account_key(self) -> Path:
        """The key for the tokens of service accounts."""
        return self.root / "pki" / "service-accounts.key"

    @property
    def client_authority(self) -> Path:
        """The certificate of the authority for client certificates."""
        return self.root / "pki" / "clients-ca.crt"

    @property
    def admin_certificate(self) -> tuple[Path, Path]:
        """The client certificate of the administrator, and its key."""
        return self.root / "pki" / "admin.crt", self.root / "pki" / "admin.key"

    @property
    def kubelet_client_certificate(self) -> tuple[Path, Path]:
        """The client certificate of the API server for its requests to the kubelet, and its key."""
        return self.root / "pki" / "kubelet-client.crt", self.root / "pki" / "kubelet-client.key"

    @property
    def server_certificate(self) -> Path:
        """The certificate of the API server, with that of its authority."""
        return self.root / "pki" / "apiserver.crt"

    @property
    def server_key(self) -> Path:
        """The key of the API server's certificate."""
        return self.root / "pki" / "apiserver.key"

    @property
    def kubelet_certificate(self) -> tuple[Path, Path]:
        """The certificate of the kubelet's server, and its key."""
        return self.root / "pki" / "kubelet.crt", self.root / "pki" / "kubelet.key"

    @property
    def audit_policy(self) -> Path:
        """The audit policy of the API server."""
        return self.root / "pki" / "audit-policy.json"

    @property
    def audit_log(self) -> Path:
        """The audit log of the API server."""
        return self.logs_dir / "audit.log"

    def kubeconfig(self, user: str) -> Path:
        """The kubeconfig of one user."""
        return self.root / "pki" / f"{user}.kubeconfig"

    def log(self, component: str) -> Path:
        """The output of the component since the run began."""
        return self.logs_dir / f"{component}.log"

    def make(self, *, kubelet: bool = True, node_names: Iterable[str] = ()) -> None:
        """Makes the folders, with or without those of a kubelet, and the files for the confinement of processes.

        In the confinement, the names of the nodes are names of this machine, where the API server reaches the kubelets.
        """
        folders = [self.pki_dir, self.logs_dir, self.temporary_dir]
        if kubelet:
            folders += [self.plugins_dir, self.registry_dir, self.device_plugins_dir]
            folders += [self.pod_logs_dir, self.static_pods_dir]
        for folder in folders:
            folder.mkdir(parents=True, exist_ok=True)
        for name, text in _RESOLUTION.items():
            (self.root / name).write_text(text.format(nodes=" ".join(node_names)), encoding="utf-8")

    def mount_plan(self, needed: Iterable[Path]) -> MountPlan:
        """The mounts of the run's processes: they can read the machine, and write only to the folder of the run.

        A kubelet assumes that it owns its machine: it sets sysctls, deletes files that match the log path of a
        container, and makes folders below /var/lib and /var/log. So every mount but the folder of the run is
        read-only, /var/lib and /var/log are empty memory, and two files of the run resolve names. The kubelet's root
        is mounted at /var/lib/kubelet too: drivers name paths there. No flag moves device-plugins below it, so a
        folder of the run is mounted there. A user namespace alone is not enough for root, who can still write the
        files of root. `needed` are folders that stay visible.
        """
        folders = {f"/etc/{name}": str(self.root / name) for name in _RESOLUTION if Path("/etc", name).exists()}
        if self.device_plugins_dir.is_dir():
            folders |= {_HOME: str(self.kubelet_root), f"{_HOME}/device-plugins": str(self.device_plugins_dir)}
        return MountPlan(
            folders,
            needed=tuple(map(str, needed)),
            empty=("/var/lib", "/var/log"),
            writable=(os.path.realpath(self.root),),
        )


# Certificates of one node: of its administrator, of its API server and of its kubelet.
#
# The authorities that issue them are forgotten, so nobody can issue another one. They last for ten years, because a
# node may be started again with its files. API server and kubelet would make their own certificates, but with RSA
# keys, which takes half a second.

ADMIN_USER = "drahealth:admin"
"""The user of the administrator; all users are in the group `system:masters`."""
_LIFETIME = timedelta(days=3650)
_LOOPBACK = x509.IPAddress(ip_address("127.0.0.1"))
_SIGNS = x509.KeyUsage(
    digital_signature=False,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    key_cert_sign=True,
    crl_sign=False,
    encipher_only=False,
    decipher_only=False,
)
_SERVICE = [x509.DNSName(f"kubernetes{suffix}") for suffix in ("", ".default", ".default.svc")]


def keep_client_certificates(layout: Layout) -> None:
    """Writes the certificates for requests to the API server and to the kubelet, unless they are there."""
    if layout.client_authority.exists():  # the last file that is written
        return
    authority = _Authority.make("drahealth-clients")
    for user, files in ((ADMIN_USER, layout.admin_certificate), ("kube-apiserver", layout.kubelet_client_certificate)):
        parts = [(NameOID.ORGANIZATION_NAME, "system:masters"), (NameOID.COMMON_NAME, user)]
        subject = x509.Name([x509.NameAttribute(*part) for part in parts])
        authority.issue(files, subject, ExtendedKeyUsageOID.CLIENT_AUTH)
    replace_file(layout.client_authority, authority.pem)


def keep_server_certificate(layout: Layout) -> None:
    """Writes the certificate of the API server with that of its authority, unless it is there."""
    names = [_LOOPBACK, x509.IPAddress(ip_address("10.0.0.1")), x509.DNSName("localhost"), *_SERVICE]
    _keep_server((layout.server_certificate, layout.server_key), "kube-apiserver", names)


def keep_kubelet_certificate(layout: Layout, node_name: str) -> None:
    """Writes the certificate of the kubelet's server, unless it is there."""
    _keep_server(layout.kubelet_certificate, node_name, [_LOOPBACK, x509.DNSName(node_name)])


def _keep_server(files: tuple[Path, Path], name: str, names: Sequence[x509.GeneralName]) -> None:
    if not files[0].exists():  # the last file that is written
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        authority = _Authority.make(f"{name}-server")
        authority.issue(files, subject, ExtendedKeyUsageOID.SERVER_AUTH, names, with_authority=True)


@dataclass(frozen=True, slots=True)
class _Authority:
    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @classmethod
    def make(cls, title: str) -> "_Authority":
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, title)])
        builder = _builder(name, name, key, key).add_extension(x509.BasicConstraints(ca=True, path_length=0), True)
        builder = builder.add_extension(_SIGNS, critical=True)
        return cls(builder.sign(key, hashes.SHA256()), key)

    @property
    def pem(self) -> bytes:
        return self.certificate.public_bytes(Encoding.PEM)

    def issue(
        self,
        files: tuple[Path, Path],
        subject: x509.Name,
        usage: x509.ObjectIdentifier,
        names: Sequence[x509.GeneralName] = (),
        *,
        with_authority: bool = False,
    ) -> None:
        """Writes the key, then the certificate."""
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _builder(subject, self.certificate.subject, key, self.key)
        builder = builder.add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        certificate_file, key_file = files
        replace_file(key_file, key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        pem = builder.sign(self.key, hashes.SHA256()).public_bytes(Encoding.PEM)
        replace_file(certificate_file, pem + (self.pem if with_authority else b""))


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, issuer_key: ec.EllipticCurvePrivateKey
) -> x509.CertificateBuilder:
    since = datetime.now(UTC) - timedelta(days=1)
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key.public_key())
    builder = builder.serial_number(x509.random_serial_number())
    builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    issuer_id = x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key())
    builder = builder.add_extension(issuer_id, critical=False)
    return builder.not_valid_before(since).not_valid_after(since + _LIFETIME)


# Credentials for the API server of one run: static tokens, certificates, kubeconfigs, and the key of the service
# accounts.
#
# Every component has its own user, so that the records of the API server name it. All users are in `system:masters`:
# the API server makes RBAC roles only after its start, and no component should wait for them.

ADMIN = "admin"
SCHEDULER = "kube-scheduler"
CONTROLLER_MANAGER = "kube-controller-manager"
KUBELET = "kubelet"


def write_credentials(layout: Layout, server: str, node_name: str, joining: Iterable[str] = ()) -> str:
    """Writes the kubeconfigs and returns the token of the administrator; `server` is the URL of the API server.

    Tokens, keys and certificates of an earlier start stay. The kubelets of the nodes `joining` have tokens, too.
    """
    users = {
        ADMIN: ADMIN_USER,
        SCHEDULER: "system:kube-scheduler",
        CONTROLLER_MANAGER: "system:kube-controller-manager",
        KUBELET: kubelet_user(node_name),
    }
    keep_client_certificates(layout)
    keep_server_certificate(layout)
    keep_kubelet_certificate(layout, node_name)
    _keep(layout.service_account_key, lambda: signing_key(secrets.token_bytes(32)))
    tokens = _keep_tokens(layout, [*users.values(), *map(kubelet_user, joining)])
    for name, user in users.items():
        _write_kubeconfig(layout.kubeconfig(name), server, tokens[user], layout)
    return tokens[ADMIN_USER]


def write_joining_credentials(layout: Layout, server: str, node_name: str, first: Layout) -> None:
    """Writes the credentials of a node that joins the control plane in the folder of the node `first`.

    `write_credentials` has made a token for its kubelet there.
    """
    keep_kubelet_certificate(layout, node_name)
    replace_file(layout.client_authority, first.client_authority.read_bytes())
    tokens = _tokens(first)
    for name, user in ((ADMIN, ADMIN_USER), (KUBELET, kubelet_user(node_name))):
        _write_kubeconfig(layout.kubeconfig(name), server, tokens[user], first)


def kubelet_user(node_name: str) -> str:
    """The user of a kubelet. Source: Kubernetes documentation, "Using Node Authorization"."""
    return f"system:node:{node_name}"


def _write_kubeconfig(path: Path, server: str, token: str, layout: Layout) -> None:
    replace_file(path, json.dumps(kubeconfig(server, token, layout), indent=1).encode())


def keep_admin(layout: Layout) -> str:
    """The token of an administrator, who is the only user; writes what is missing and keeps what is there."""
    keep_server_certificate(layout)
    _keep(layout.service_account_key, lambda: signing_key(secrets.token_bytes(32)))
    return _keep_tokens(layout, [ADMIN_USER])[ADMIN_USER]


def _keep(path: Path, make: Callable[[], str]) -> None:
    if not path.exists():
        replace_file(path, make().encode())


def _keep_tokens(layout: Layout, users: Iterable[str]) -> dict[str, str]:
    """The tokens of all users. Those that are missing are added to the file."""
    found = _tokens(layout) if layout.tokens.exists() else {}
    tokens = {user: secrets.token_hex(16) for user in users} | found
    if tokens != found:
        replace_file(layout.tokens, token_file((token, user) for user, token in tokens.items()).encode())
    return tokens


def _tokens(layout: Layout) -> dict[str, str]:
    """The token of each user."""
    lines = layout.tokens.read_text(encoding="utf-8").splitlines()
    return {user: token for token, user, *_ in (line.split(",") for line in lines)}


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
