"""The statement of a certificate, its signatures, and its form for a public table."""

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key as rsa_key
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from drahealth.suites.commands.certificate_files import ENVELOPE, STATEMENT, Signer, run_url, sign, unchecked_signature
from drahealth.suites.commands.check_run import write_files
from drahealth.suites.commands.verify_run import verify
from drahealth.suites.driver_checks.evidence import Evidence
from drahealth.suites.driver_checks.profile.file import profile_of
from drahealth.suites.errors import ConfigurationError
from drahealth.suites.report.result_files import EVIDENCE, REPORT
from drahealth.suites.unit.driver_checks.certificates import core_run, written
from drahealth.suites.unit.report.reports import leave_sockets

DRIVER = b"the driver"
DIGEST = "a5b5dc7c2ca3df0ac0a8ab2f1ec2d7a9b7a4b0dbc3a92b1f0a1f1f6ee3f4b3d1"


def run_of(file: Path, change: Any = lambda _, event: event) -> Evidence:
    """The evidence of a driver with this file."""
    file.write_bytes(DRIVER)
    name, digest = profile_of({"driver": {"command": [str(file)]}}).driver.identified()
    run = core_run(change)
    return replace(run, header=replace(run.header, artifact=name, artifact_sha256=digest))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A certificate with the statement of a driver."""
    written(tmp_path / "certificate", run_of(tmp_path / "my-driver"))
    return tmp_path / "certificate"


def keys(folder: Path, name: str, key: Any) -> tuple[Path, Path]:
    """The files of a private and of a public key."""
    private, public = folder / f"{name}.pem", folder / f"{name}.pub.pem"
    private.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    public.write_bytes(key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    return private, public


def verified(folder: Path, **signer: Any) -> int:
    return verify(folder / REPORT, folder / EVIDENCE, Signer(**signer))


def test_statement_is_a_test_result_of_the_file_that_ran(folder: Path) -> None:
    statement = json.loads((folder / STATEMENT).read_text())
    predicate = statement["predicate"]
    assert statement["_type"] == "https://in-toto.io/Statement/v1"
    assert statement["predicateType"] == "https://in-toto.io/attestation/test-result/v0.1"
    assert [one["name"] for one in statement["subject"]] == ["my-driver"]
    assert (predicate["result"], predicate["failedTests"]) == ("PASSED", [])
    assert "PLUGIN-01" in predicate["passedTests"]
    assert all(one.keys() & {"digest", "uri"} for one in predicate["configuration"])


def test_statement_of_a_driver_that_is_not_certified_names_the_failed_requirement(tmp_path: Path) -> None:
    written(tmp_path / "failed", run_of(tmp_path / "my-driver", leave_sockets))
    predicate = json.loads((tmp_path / "failed" / STATEMENT).read_text())["predicate"]
    assert (predicate["result"], predicate["failedTests"]) == ("FAILED", ["PLUGIN-18"])


def test_image_with_a_digest_is_the_subject() -> None:
    image = f"registry.example.com/driver@sha256:{DIGEST}"
    driver = profile_of({"driver": {"command": ["sh", "-c", "exec driver"], "artifact": image}}).driver
    assert driver.identified() == ("registry.example.com/driver", DIGEST)


def test_driver_without_a_digest_has_no_statement_and_cannot_be_signed(tmp_path: Path) -> None:
    run = core_run()
    written(tmp_path / "certificate", replace(run, header=replace(run.header, artifact="", artifact_sha256="")))
    assert not (tmp_path / "certificate" / STATEMENT).exists()
    with pytest.raises(ConfigurationError, match="names no digest of the driver"):
        sign(tmp_path / "certificate", None, None)


@pytest.mark.parametrize("kind", ["ed25519", "ecdsa"])
def test_signature_is_verified_with_the_public_key(folder: Path, kind: str) -> None:
    key = Ed25519PrivateKey.generate() if kind == "ed25519" else generate_private_key(SECP256R1())
    private, public = keys(folder.parent, "mine", key)
    sign(folder, private, None)
    assert verified(folder, key=public, subject=folder.parent / "my-driver") == 0
    assert unchecked_signature(folder, Signer()).startswith("The signature was not checked")


def test_signature_of_somebody_else_is_not_verified(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mine, _ = keys(folder.parent, "mine", Ed25519PrivateKey.generate())
    _, other = keys(folder.parent, "other", Ed25519PrivateKey.generate())
    sign(folder, mine, None)
    assert verified(folder, key=other) == 1
    assert capsys.readouterr().out.startswith("not verified: ")


def test_signature_of_another_statement_is_not_verified(folder: Path, tmp_path: Path) -> None:
    private, public = keys(tmp_path, "mine", Ed25519PrivateKey.generate())
    written(tmp_path / "failed", run_of(tmp_path / "my-driver", leave_sockets))
    (folder / ENVELOPE).write_bytes(sign(tmp_path / "failed", private, None).read_bytes())
    assert verified(folder, key=public) == 1


def test_edited_statement_is_not_verified(folder: Path) -> None:
    statement = json.loads((folder / STATEMENT).read_text())
    statement["subject"][0]["digest"]["sha256"] = DIGEST
    (folder / STATEMENT).write_text(json.dumps(statement))
    assert verified(folder) == 1


def test_certificate_is_not_about_another_driver(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "other").write_bytes(b"another driver")
    assert verified(folder, subject=tmp_path / "other") == 1


@pytest.mark.parametrize("content", [b"no key", b""])
def test_file_that_is_no_key_is_wrong_usage(folder: Path, tmp_path: Path, content: bytes) -> None:
    (tmp_path / "key.pem").write_bytes(content)
    with pytest.raises(ConfigurationError, match="no private key"):
        sign(folder, tmp_path / "key.pem", None)


def test_key_of_another_kind_is_wrong_usage(folder: Path, tmp_path: Path) -> None:
    private, _ = keys(tmp_path, "rsa", rsa_key(65537, 2048))
    with pytest.raises(ConfigurationError, match="kind of its key is not supported"):
        sign(folder, private, None)


@pytest.mark.parametrize(
    ("signer", "problem"),
    [
        ({"identity": "me@example.com"}, "--identity and --issuer need each other"),
        ({"trust_config": Path("trust.json")}, "--trust-config"),
        ({"key": Path("public.pem")}, "does not exist"),
    ],
)
def test_signer_that_cannot_be_checked_is_wrong_usage(folder: Path, signer: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        verified(folder, **signer)


def test_signature_without_a_key_needs_sigstore(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sigstore.dsse", None)
    with pytest.raises(ConfigurationError, match="needs sigstore"):
        sign(folder, None, None)


def test_statement_has_the_url_of_the_run_in_ci() -> None:
    github = {"GITHUB_SERVER_URL": "https://g", "GITHUB_REPOSITORY": "a/b", "GITHUB_RUN_ID": "7"}
    assert run_url(github) == "https://g/a/b/actions/runs/7"
    assert (run_url({"CI_JOB_URL": "https://l/1"}), run_url({})) == ("https://l/1", "")


# -- the form of Gateway API


def conformance(folder: Path, *about: str) -> Any:
    path = folder.parent / "driver.yaml"
    write_files([folder], conformance=str(path), about=about)
    return yaml.safe_load(path.read_text())


def test_certificate_has_the_form_of_a_conformance_report(folder: Path) -> None:
    found = conformance(folder, "version=1.2", "contact=@a, @b")
    about = {"project": "gpu.example.com", "version": "1.2", "contact": ["@a", "@b"]}
    assert (found["kind"], found["implementation"], found["mode"]) == ("ConformanceReport", about, "core")
    [profile] = found["profiles"]
    assert (profile["name"], profile["core"]["statistics"]["Failed"]) == ("DRA-DRIVER", 0)
    assert "v1.DRAResourceHealth" in profile["extended"]["supportedFeatures"]


def test_conformance_report_separates_missing_features_from_those_that_the_level_does_not_try(tmp_path: Path) -> None:
    written(tmp_path / "failed", core_run(leave_sockets))
    extended = conformance(tmp_path / "failed")["profiles"][0]["extended"]
    assert "exit" in extended["unsupportedFeatures"]
    assert {"faults", "rolling updates"} <= set(extended["untestedFeatures"])
    assert not {*extended["supportedFeatures"]} & {*extended["unsupportedFeatures"], *extended["untestedFeatures"]}


def test_conformance_report_of_a_run_that_was_cut_short_is_partial(tmp_path: Path) -> None:
    written(tmp_path / "cut", replace(core_run(), complete=False))
    (profile,) = conformance(tmp_path / "cut")["profiles"]
    assert (profile["core"]["result"], profile["extended"]["result"]) == ("partial", "partial")


def test_conformance_report_names_failed_requirements(tmp_path: Path) -> None:
    written(tmp_path / "failed", run_of(tmp_path / "my-driver", leave_sockets))
    core = conformance(tmp_path / "failed")["profiles"][0]["core"]
    assert (core["result"], core["failedTests"]) == ("failure", ["PLUGIN-18"])


@pytest.mark.parametrize("about", ["version", "color=red", "version="])
def test_implementation_needs_a_known_key_and_a_value(folder: Path, about: str) -> None:
    with pytest.raises(ConfigurationError, match="--implementation must be KEY=VALUE"):
        conformance(folder, about)
