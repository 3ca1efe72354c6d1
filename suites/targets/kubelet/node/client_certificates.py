"""Client certificates of one node: for its administrator, and for requests of its API server to its kubelet.

The authority that issues them is forgotten, so nobody can issue another one. They last for ten years, because a node
may be started again with its files.
"""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from drahealth.fakes.program.atomic import replace_file
from drahealth.suites.targets.kubelet.node.layout import Layout

ADMIN_USER = "drahealth:admin"
"""The user of the administrator; all users are in the group `system:masters`."""
_LIFETIME = timedelta(days=3650)
_AUTHORITY = "drahealth-clients"


def keep_client_certificates(layout: Layout) -> None:
    """Writes the certificates and their authority, unless they are there."""
    if layout.client_authority.exists():  # the last file that is written
        return
    authority_key = ec.generate_private_key(ec.SECP256R1())
    authority = _authority(authority_key)
    for user, files in ((ADMIN_USER, layout.admin_certificate), ("kube-apiserver", layout.kubelet_client_certificate)):
        key = ec.generate_private_key(ec.SECP256R1())
        _write(files, _client(user, key, authority, authority_key), key)
    replace_file(layout.client_authority, authority.public_bytes(Encoding.PEM))


def _authority(key: ec.EllipticCurvePrivateKey) -> x509.Certificate:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, _AUTHORITY)])
    builder = _builder(name, name, key).add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    return builder.sign(key, hashes.SHA256())


def _client(
    user: str, key: ec.EllipticCurvePrivateKey, authority: x509.Certificate, authority_key: ec.EllipticCurvePrivateKey
) -> x509.Certificate:
    parts = [(NameOID.ORGANIZATION_NAME, "system:masters"), (NameOID.COMMON_NAME, user)]
    builder = _builder(x509.Name([x509.NameAttribute(*part) for part in parts]), authority.subject, key)
    usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH])
    return builder.add_extension(usage, critical=False).sign(authority_key, hashes.SHA256())


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    since = datetime.now(UTC) - timedelta(days=1)
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key.public_key())
    return builder.serial_number(x509.random_serial_number()).not_valid_before(since).not_valid_after(since + _LIFETIME)


def _write(files: tuple[Path, Path], certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> None:
    certificate_file, key_file = files
    replace_file(certificate_file, certificate.public_bytes(Encoding.PEM))
    replace_file(key_file, key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
