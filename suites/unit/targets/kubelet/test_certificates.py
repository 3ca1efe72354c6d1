"""The certificates and tokens of a node."""

import ssl
from pathlib import Path

import pytest

from drahealth.suites.targets.kubelet.layout import (
    KUBELET,
    Layout,
    keep_kubelet_certificate,
    keep_server_certificate,
    write_credentials,
    write_joining_credentials,
)

SERVER = "https://127.0.0.1:6443"


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    made = Layout(tmp_path)
    made.pki_dir.mkdir()
    return made


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost", "kubernetes.default.svc"])
def test_strict_clients_accept_the_certificate_of_the_api_server(layout: Layout, name: str) -> None:
    keep_server_certificate(layout)
    assert accepted(layout.server_certificate, layout.server_key, name)


def test_strict_clients_accept_the_certificate_of_the_kubelet_for_the_node(layout: Layout) -> None:
    keep_kubelet_certificate(layout, "gpu-node")
    assert accepted(*layout.kubelet_certificate, "gpu-node")
    with pytest.raises(ssl.SSLCertVerificationError):
        accepted(*layout.kubelet_certificate, "other")


def test_certificates_of_an_earlier_start_stay(layout: Layout) -> None:
    keep_server_certificate(layout)
    before = layout.server_certificate.read_bytes()
    keep_server_certificate(layout)
    assert layout.server_certificate.read_bytes() == before


def test_tokens_of_an_earlier_start_stay_when_a_node_is_added(layout: Layout) -> None:
    write_credentials(layout, SERVER, "a")
    before = layout.tokens.read_text()
    write_credentials(layout, SERVER, "a", ["a-2"])
    assert layout.tokens.read_text().startswith(before)
    assert layout.tokens.read_text().removeprefix(before).split(",")[1] == "system:node:a-2"


def test_a_joining_kubelet_has_the_token_of_its_own_user(layout: Layout, tmp_path: Path) -> None:
    write_credentials(layout, SERVER, "a", ["a-2"])
    joining = Layout(tmp_path / "a-2")
    joining.pki_dir.mkdir(parents=True)
    write_joining_credentials(joining, SERVER, "a-2", layout)
    (token,) = (line.split(",")[0] for line in layout.tokens.read_text().splitlines() if "system:node:a-2" in line)
    assert token in joining.kubeconfig(KUBELET).read_text()
    assert accepted(*joining.kubelet_certificate, "a-2")


def accepted(certificate: Path, key: Path, name: str) -> bool:
    """A TLS handshake in memory, of a client that trusts what the file has. Raises SSLCertVerificationError."""
    trust = ssl.create_default_context(cafile=certificate)
    trust.verify_flags |= ssl.VERIFY_X509_STRICT
    served = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    served.load_cert_chain(certificate, key)
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        trust.wrap_bio(to_client, to_server, server_hostname=name),
        served.wrap_bio(to_server, to_client, server_side=True),
    ]
    while ends:
        for end in list(ends):
            try:
                end.do_handshake()
                ends.remove(end)
            except ssl.SSLWantReadError:
                continue
    return True
