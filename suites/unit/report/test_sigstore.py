"""Signatures of sigstore beside a certificate, verified by the package sigstore with an instance in memory."""

from pathlib import Path

import pytest

from drahealth.suites.commands.certificate_files import BUNDLE, STATEMENT, Signer, sign
from drahealth.suites.commands.verify_run import verify
from drahealth.suites.errors import ConfigurationError, HarnessError
from drahealth.suites.report.result_files import EVIDENCE, REPORT
from drahealth.suites.unit.driver_checks.certificates import written
from drahealth.suites.unit.report.sigstore_instance import Instance
from drahealth.suites.unit.report.test_statement import run_of

pytest.importorskip("sigstore", reason="it makes and checks signatures; `ci/set-up test,sign` installs it")

ME, ISSUER = "me@example.com", "https://issuer.example.com"


@pytest.fixture
def instance() -> Instance:
    return Instance()


@pytest.fixture
def folder(tmp_path: Path, instance: Instance) -> Path:
    """A certificate that ME has signed."""
    found = tmp_path / "certificate"
    written(found, run_of(tmp_path / "my-driver"))
    (found / BUNDLE).write_text(instance.bundle((found / STATEMENT).read_bytes(), ME, ISSUER))
    (tmp_path / "trust.json").write_text(instance.trust_config())
    return found


def verified(folder: Path, identity: str = ME, issuer: str = ISSUER) -> int:
    signer = Signer(identity=identity, issuer=issuer, trust_config=folder.parent / "trust.json")
    return verify(folder / REPORT, folder / EVIDENCE, signer)


def test_signature_of_the_identity_is_verified(folder: Path) -> None:
    assert verified(folder) == 0


@pytest.mark.parametrize(
    ("identity", "issuer"), [("you@example.com", ISSUER), (ME, "https://other.example.com")], ids=["identity", "issuer"]
)
def test_signature_of_somebody_else_is_refused(
    folder: Path, capsys: pytest.CaptureFixture[str], identity: str, issuer: str
) -> None:
    assert verified(folder, identity, issuer) == 1
    assert f"is not signed by {identity} of {issuer}" in "".join(capsys.readouterr())


def test_signature_of_another_instance_is_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder.parent / "trust.json").write_text(Instance().trust_config())
    assert verified(folder) == 1
    assert f"is not signed by {ME} of {ISSUER}" in "".join(capsys.readouterr())


def test_signature_of_another_statement_is_refused(
    folder: Path, instance: Instance, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / BUNDLE).write_text(instance.bundle(b'{"_type": "https://in-toto.io/Statement/v1"}', ME, ISSUER))
    assert verified(folder) == 1
    assert "signs another statement" in "".join(capsys.readouterr())


def test_file_that_is_no_bundle_is_named(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / BUNDLE).write_text("{}")
    assert verified(folder) == 1
    assert "is no bundle of sigstore" in "".join(capsys.readouterr())


def test_missing_bundle_is_wrong_usage(folder: Path) -> None:
    (folder / BUNDLE).unlink()
    with pytest.raises(ConfigurationError, match="does not exist"):
        verified(folder)


def test_trust_that_cannot_be_read_is_an_error_of_the_harness(folder: Path) -> None:
    (folder.parent / "trust.json").write_text("{}")
    with pytest.raises(HarnessError, match="sigstore could not read its trusted keys"):
        verified(folder)
    with pytest.raises(HarnessError, match="sigstore could not sign"):
        sign(folder, None, folder.parent / "trust.json")
