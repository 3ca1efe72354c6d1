"""An instance of sigstore for tests, without a server: a certificate authority and two logs, as keys in memory.

It makes bundles that the package sigstore verifies offline. Source: the specs of sigstore and RFC 6962.
"""

import json
import struct
from base64 import b64encode
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ec import ECDSA, SECP256R1, EllipticCurvePrivateKey, generate_private_key
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID, ObjectIdentifier

from drahealth.suites.report.attestation import PAYLOAD_TYPE

_ISSUER = ObjectIdentifier("1.3.6.1.4.1.57264.1.1")
_SCTS = ObjectIdentifier("1.3.6.1.4.1.11129.2.4.2")
_BEGIN = "2020-01-01T00:00:00Z"


def _text(data: bytes) -> str:
    return b64encode(data).decode()


def _public(key: EllipticCurvePrivateKey) -> bytes:
    return key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def _key_id(key: EllipticCurvePrivateKey) -> bytes:
    return sha256(_public(key)).digest()


def _signed(key: EllipticCurvePrivateKey, data: bytes) -> bytes:
    return key.sign(data, ECDSA(SHA256()))


def _usage(**allowed: bool) -> x509.KeyUsage:
    names = ("digital_signature", "content_commitment", "key_encipherment", "data_encipherment", "key_agreement")
    more = ("key_cert_sign", "crl_sign", "encipher_only", "decipher_only")
    return x509.KeyUsage(**{name: allowed.get(name, False) for name in (*names, *more)})


class Instance:
    """A certificate authority (Fulcio), a log of certificates, and a log of signatures (Rekor)."""

    def __init__(self) -> None:
        self._authority, self._certificates, self._log = (generate_private_key(SECP256R1()) for _ in range(3))
        self._now = datetime.now(UTC).replace(microsecond=0)
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "authority")])
        key = self._authority.public_key()
        self._root = (
            self._builder(name, self._authority)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(key_cert_sign=True, crl_sign=True), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
            .sign(self._authority, SHA256())
        )

    def _builder(self, subject: x509.Name, key: EllipticCurvePrivateKey) -> x509.CertificateBuilder:
        builder = x509.CertificateBuilder(subject_name=subject, public_key=key.public_key())
        return (
            builder.issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "authority")]))
            .serial_number(x509.random_serial_number())
            .not_valid_before(self._now - timedelta(minutes=5))
            .not_valid_after(self._now + timedelta(minutes=5))
        )

    def _certificate(self, key: EllipticCurvePrivateKey, identity: str, issuer: str) -> x509.Certificate:
        """The certificate of a signer, with the promise of the log of certificates."""
        authority = self._authority.public_key()
        builder = (
            self._builder(x509.Name([]), key)
            .add_extension(x509.SubjectAlternativeName([x509.RFC822Name(identity)]), critical=True)
            .add_extension(x509.UnrecognizedExtension(_ISSUER, issuer.encode()), critical=False)
            .add_extension(_usage(digital_signature=True), critical=True)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CODE_SIGNING]), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority), critical=False)
        )
        without = builder.sign(self._authority, SHA256()).tbs_certificate_bytes
        time, length = struct.pack("!Q", int(self._now.timestamp()) * 1000), struct.pack("!I", len(without))[1:]
        entry = _key_id(self._authority) + length + without
        signature = _signed(self._certificates, b"\0\0" + time + b"\0\1" + entry + b"\0\0")
        fields = b"\0" + _key_id(self._certificates) + time + b"\0\0" + b"\4\3" + struct.pack("!H", len(signature))
        promise = struct.pack("!H", len(fields + signature)) + fields + signature
        promises = struct.pack("!H", len(promise)) + promise
        value = b"\4" + (bytes([len(promises)]) if len(promises) < 128 else bytes([0x81, len(promises)])) + promises
        return builder.add_extension(x509.UnrecognizedExtension(_SCTS, value), critical=False).sign(
            self._authority, SHA256()
        )

    def bundle(self, payload: bytes, identity: str, issuer: str) -> str:
        """The signature of a payload by somebody, as `drahealth sign` writes it."""
        key = generate_private_key(SECP256R1())
        certificate = self._certificate(key, identity, issuer)
        head = f"DSSEv1 {len(PAYLOAD_TYPE)} {PAYLOAD_TYPE} {len(payload)} ".encode()
        signature = _signed(key, head + payload)
        envelope = {
            "payload": _text(payload),
            "payloadType": PAYLOAD_TYPE,
            "signatures": [{"sig": _text(signature)}],
        }
        material = {
            "certificate": {"rawBytes": _text(certificate.public_bytes(Encoding.DER))},
            "tlogEntries": [self._logged(payload, signature, certificate)],
        }
        kind = "application/vnd.dev.sigstore.bundle.v0.3+json"
        return json.dumps({"mediaType": kind, "verificationMaterial": material, "dsseEnvelope": envelope})

    def _logged(self, payload: bytes, signature: bytes, certificate: x509.Certificate) -> dict[str, Any]:
        """The entry of the log of signatures, which is the only one of this log."""
        digest = {"algorithm": "sha256", "value": sha256(payload).hexdigest()}
        signer = {"signature": _text(signature), "verifier": _text(certificate.public_bytes(Encoding.PEM))}
        spec = {"envelopeHash": digest, "payloadHash": digest, "signatures": [signer]}
        body = json.dumps({"apiVersion": "0.0.1", "kind": "dsse", "spec": spec}).encode()
        root, key_id, time = sha256(b"\0" + body).digest(), _key_id(self._log), int(self._now.timestamp())
        note = f"log.example.com\n1\n{_text(root)}\n"
        promise = {"body": _text(body), "integratedTime": time, "logID": key_id.hex(), "logIndex": 0}
        canonical = json.dumps(promise, sort_keys=True, separators=(",", ":")).encode()
        signed_note = _text(key_id[:4] + _signed(self._log, note.encode()))
        return {
            "logIndex": "0",
            "logId": {"keyId": _text(key_id)},
            "kindVersion": {"kind": "dsse", "version": "0.0.1"},
            "integratedTime": str(time),
            "inclusionPromise": {"signedEntryTimestamp": _text(_signed(self._log, canonical))},
            "inclusionProof": {
                "logIndex": "0",
                "rootHash": _text(root),
                "treeSize": "1",
                "hashes": [],
                "checkpoint": {"envelope": f"{note}\n\N{EM DASH} log.example.com {signed_note}\n"},
            },
            "canonicalizedBody": _text(body),
        }

    def trust_config(self) -> str:
        """What a client that trusts this instance has, for `--trust-config`."""
        authority = {
            "subject": {"organization": "example.com", "commonName": "authority"},
            "uri": "https://authority.example.com",
            "certChain": {"certificates": [{"rawBytes": _text(self._root.public_bytes(Encoding.DER))}]},
            "validFor": {"start": _BEGIN},
        }
        root = {
            "mediaType": "application/vnd.dev.sigstore.trustedroot+json;version=0.1",
            "tlogs": [_log_of(self._log)],
            "certificateAuthorities": [authority],
            "ctlogs": [_log_of(self._certificates)],
            "timestampAuthorities": [],
        }
        signing = {
            "mediaType": "application/vnd.dev.sigstore.signingconfig.v0.2+json",
            "rekorTlogConfig": {"selector": "ANY"},
            "tsaConfig": {"selector": "ANY"},
        }
        kind = "application/vnd.dev.sigstore.clienttrustconfig.v0.1+json"
        return json.dumps({"mediaType": kind, "trustedRoot": root, "signingConfig": signing})


def _log_of(key: EllipticCurvePrivateKey) -> dict[str, Any]:
    details = {"rawBytes": _text(_public(key)), "keyDetails": "PKIX_ECDSA_P256_SHA_256", "validFor": {"start": _BEGIN}}
    log_id = {"keyId": _text(_key_id(key))}
    return {"baseUrl": "https://log.example.com", "hashAlgorithm": "SHA2_256", "publicKey": details, "logId": log_id}
