"""Redaction: evidence shows neither secrets nor names of the machine."""

from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from drahealth.proto.events import ExperimentEnded, GrpcCall, ProcessStarted
from drahealth.suites.driver_checks.evidence import (
    HOST,
    SECRET,
    EvidenceWriter,
    Redaction,
    options_in,
    read_evidence,
    secrets_in,
)
from drahealth.suites.errors import HarnessError
from drahealth.suites.unit.driver_checks.evidence_of import HEADER


def no_path(_: str) -> bool:
    return False


def test_longer_paths_are_replaced_first() -> None:
    redact = Redaction(paths={"/home/ada": "~", "/home/ada/run": "{run_dir}"})
    assert redact(["/home/ada/run/a", "--dir=/home/ada/b"]) == ["{run_dir}/a", "--dir=~/b"]


@pytest.mark.parametrize("text", ["/home/adam", "/home/ada-2/x", "/home/ada.old", "/mnt/home/ada"])
def test_similar_path_is_not_redacted(text: str) -> None:
    assert Redaction(paths={"/home/ada": "~"})(text) == text


@pytest.mark.parametrize("path", ["/", "/root"])
def test_path_of_one_component_is_not_redacted(path: str) -> None:
    assert Redaction(paths={path: "{cwd}"})("drahealth/v1 /root/a") == "drahealth/v1 /root/a"


def test_numbers_and_keys_are_not_redacted() -> None:
    value = {"179533": 1795334400, "a": [1795334400.5, True, None]}
    assert Redaction(["179533"])(value) == value


@pytest.mark.parametrize(
    ("text", "redacted"),
    [
        ("postgres://u:pw@db:5432/x", f"postgres://{SECRET}@db:5432/x"),
        ("see https://example.com/a and b@example.com", "see https://example.com/a and b@example.com"),
    ],
)
def test_user_and_password_of_a_url_are_replaced(text: str, redacted: str) -> None:
    assert Redaction()(text) == redacted


def test_host_name_is_replaced() -> None:
    assert Redaction(host="gpu-box")("gpu-box.example.com gpu-boxes") == f"{HOST}.example.com gpu-boxes"


def test_secret_that_is_learned_later_is_replaced() -> None:
    redact = Redaction()
    redact.hide("kubeconfig-token")
    assert redact("a kubeconfig-token b") == f"a {SECRET} b"


@pytest.mark.parametrize(
    "name", ["API_TOKEN", "GITHUB_PAT", "DB_PASS", "DB_PASSWORD", "AWS_SECRET_ACCESS_KEY", "token", "api-key"]
)
def test_secrets_are_found_by_their_names(name: str) -> None:
    assert secrets_in([(name, "wJalrXUt/K7MDENG+b==")], no_path) == {"wJalrXUt/K7MDENG+b=="}


@pytest.mark.parametrize("name", ["PATH", "HOME", "PYTHONPATH", "node-name", "driver-name", "COMPASS"])
def test_other_names_are_no_secrets(name: str) -> None:
    assert secrets_in([(name, "gpu.example.com")], no_path) == set()


def test_paths_and_placeholders_are_no_secrets() -> None:
    named = [("TOKEN_FILE", "/run/token"), ("token-dir", "{driver_dir}/x")]
    assert secrets_in(named, "/run/token".__eq__) == set()


def test_options_have_their_values_in_the_same_or_the_next_word() -> None:
    words = ["./driver", "--token=a=b", "--api-key", "c", "DB_PASS=d", "--flag", "-v", "--last"]
    assert [*options_in(words)] == [("token", "a=b"), ("api-key", "c"), ("DB_PASS", "d")]


def test_redacted_text_is_neither_in_the_file_nor_in_the_records(tmp_path: Path) -> None:
    header = replace(HEADER, command=("--token=s3cr3t",))
    redaction = Redaction(["s3cr3t", "179533"], {"/tmp/dh-1": "{run_dir}"})
    with closing(EvidenceWriter(header, tmp_path / "evidence", redaction)) as writer:
        writer.add(1 / 3, "registration", ProcessStarted("main", 7, ("./driver", "--dir=/tmp/dh-1/plugins", "s3cr3t")))
        writer.add(
            0.5, "registration", GrpcCall("gpu.example.com", "/a.sock", "GetInfo", {"at": 1795334400}, None, 0.1, "OK")
        )
        writer.finish()
    assert read_evidence(tmp_path / "evidence") == writer.evidence
    started, call = [record.what for record in writer.evidence.records]
    assert started == ProcessStarted("main", 7, ("./driver", "--dir={run_dir}/plugins", SECRET))
    assert isinstance(call, GrpcCall)
    assert (call.request, writer.evidence.header.command) == ({"at": 1795334400}, (f"--token={SECRET}",))
    assert "s3cr3t" not in (tmp_path / "evidence").read_text()


def test_secret_equal_to_an_evidence_keyword_is_a_harness_error() -> None:
    with pytest.raises(HarnessError):
        EvidenceWriter(HEADER, redaction=Redaction(["incomplete"])).add(
            0.5, "registration", ExperimentEnded("incomplete", "")
        )
