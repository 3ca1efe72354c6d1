"""Serves the in-memory API server on a loopback port, with its credentials."""

import ipaddress
import json
import logging
import secrets
import socket
import ssl
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING

from drahealth.fakes.cluster.access import static_kubeconfig
from drahealth.fakes.cluster.api_server.request_checks import RequestChecks
from drahealth.fakes.cluster.api_server.server import ApiServer
from drahealth.fakes.program.private_files import replace_file

if TYPE_CHECKING:
    from aiohttp import web
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec

# The credentials of an API server over HTTPS: a bearer token for its clients, and a certificate of its own.
#
# It is HTTPS because client-go sends no token over plain HTTP (k8s.io/client-go, clientcmd). The certificate also
# keeps a client from sending its token to another process that listens on the port later.

LOOPBACK = "127.0.0.1"
"""The address on which the server listens."""

HOSTS = (LOOPBACK, "localhost")
"""The names of the server in requests and in its certificate."""

_VALID = timedelta(days=3650)
_EARLIER = timedelta(days=1)
"""The certificate is valid from a day before it is made, for clocks that differ."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Credentials:
    """All texts are PEM, but the token. The key of the authority is not kept."""

    token: str
    authority: str
    """The certificate that signed the one of the server; clients trust it."""
    certificate: str
    key: str

    @classmethod
    def generate(cls) -> "Credentials":
        """New credentials. The certificate is for `HOSTS`, and valid for ten years from now."""
        from cryptography import x509  # slow import
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ec
        from cryptography.x509.oid import ExtendedKeyUsageOID

        authority_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
        key_usage = x509.KeyUsage(False, False, False, False, False, True, True, False, False)
        authority = (
            _unsigned("drahealth authority", authority_key, authority_key)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(key_usage, critical=True)
        )
        names = x509.SubjectAlternativeName(
            [x509.IPAddress(ipaddress.ip_address(LOOPBACK)), *(x509.DNSName(name) for name in HOSTS[1:])]
        )
        server = (
            _unsigned("drahealth API server", key, authority_key)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
            .add_extension(names, critical=False)
        )
        private = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        return cls(
            secrets.token_urlsafe(32),
            _signed(authority, authority_key),
            _signed(server, authority_key),
            private.decode(),
        )

    @classmethod
    def kept_in(cls, path: Path) -> "Credentials":
        """The credentials in this file, or new ones that are stored there, readable by the owner only. OSError."""
        try:
            found = cls(**json.loads(path.read_bytes()))
            found.server_tls()
        except FileNotFoundError:
            pass
        except (ValueError, TypeError, ssl.SSLError) as error:
            log.warning("%s is invalid (%s): clients need the new kubeconfig", path, error)
        else:
            return found
        new = cls.generate()
        replace_file(path, json.dumps(asdict(new), indent=2).encode() + b"\n")
        return new

    def write_kubeconfig(self, path: Path, url: str) -> None:
        """Writes a kubeconfig for a server with these credentials, readable by its owner only. Raises OSError."""
        config = static_kubeconfig(url, self.token, self.authority)
        replace_file(path, json.dumps(config, indent=2).encode() + b"\n")

    def server_tls(self) -> ssl.SSLContext:
        """TLS for the server. Raises ssl.SSLError for an invalid certificate or key."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        with NamedTemporaryFile("w", prefix="dra-") as file:  # the ssl module reads files only; mode 0600
            file.write(self.key + self.certificate)
            file.flush()
            context.load_cert_chain(file.name)
        return context

    def client_tls(self) -> ssl.SSLContext:
        """TLS for a client: it trusts this server only."""
        return ssl.create_default_context(cadata=self.authority)


def _unsigned(
    name: str, key: "ec.EllipticCurvePrivateKey", issuer_key: "ec.EllipticCurvePrivateKey"
) -> "x509.CertificateBuilder":
    """A certificate of `key`, to be signed by the authority."""
    from cryptography import x509

    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(_named(name))
        .issuer_name(_named("drahealth authority"))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _EARLIER)
        .not_valid_after(now + _VALID)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()), critical=False)
    )


def _named(name: str) -> "x509.Name":
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _signed(builder: "x509.CertificateBuilder", key: "ec.EllipticCurvePrivateKey") -> str:
    from cryptography.hazmat.primitives import hashes, serialization

    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM).decode()


# Serves the in-memory API server on a loopback port, for fakes in other processes and simple kubectl commands.
#
#     http = HttpApi(server)
#     url = await http.start()
#     http.write_kubeconfig(path)
#
# It listens on loopback, over HTTPS. Every request needs the bearer token, which is in the kubeconfig.


class HttpApi:
    """Serves an `ApiServer` over HTTPS on loopback at `url`, from `start` to `stop`; default: new credentials."""

    def __init__(self, server: ApiServer, credentials: Credentials | None = None) -> None:
        self._server = server
        self._credentials = credentials
        self._runner: web.AppRunner | None = None
        self._url = ""

    @property
    def url(self) -> str:
        """The URL. RuntimeError while it is not served."""
        if not self._url:
            raise RuntimeError("the API server is not served; call start first")
        return self._url

    @property
    def credentials(self) -> Credentials:
        """The credentials that a client needs."""
        self._credentials = self._credentials or Credentials.generate()
        return self._credentials

    async def start(self, port: int = 0) -> str:
        """Listens on this port of the loopback address, 0 for a free port; returns the URL. Raises OSError."""
        from aiohttp import web  # slow import, not needed by the server in this process

        from drahealth.fakes.cluster.api_server.messages import ServerLogger
        from drahealth.fakes.cluster.api_server.routes import application

        tls = self.credentials.server_tls()
        # The port is needed before a request is handled. It belongs to this process from here on.
        listening = socket.create_server((LOOPBACK, port))
        host, port = listening.getsockname()
        checks = RequestChecks(self.credentials.token, HOSTS, port)
        # A client that closes its watch cancels the handler. Open watches do not delay the stop.
        # Bodies are not decompressed, as in a real API server.
        self._runner = web.AppRunner(
            application(self._server, checks),
            handler_cancellation=True,
            access_log=None,
            shutdown_timeout=0.1,
            auto_decompress=False,
            logger=ServerLogger(),
        )
        await self._runner.setup()
        await web.SockSite(self._runner, listening, ssl_context=tls).start()
        self._url = f"https://{host}:{port}"
        return self._url

    async def stop(self) -> None:
        """Closes all connections; the API server itself continues."""
        if self._runner is not None:
            await self._runner.cleanup()
        self._runner, self._url = None, ""

    def write_kubeconfig(self, path: Path) -> None:
        """Writes a kubeconfig for this server, readable by its owner only. Raises OSError."""
        self.credentials.write_kubeconfig(path, self.url)
