"""Redaction: evidence shows neither secrets nor paths of the machine."""

import json

from drahealth.proto.events import ProcessStarted
from drahealth.suites.checking.evidence import EvidenceWriter
from drahealth.suites.checking.redaction import Redaction, secrets_in
from drahealth.suites.unit.checking.evidence_of import HEADER


def test_longer_paths_are_replaced_first() -> None:
    redact = Redaction({"/home/ada": "~", "/home/ada/run": "{run_dir}"})
    assert redact('["/home/ada/run/a", "/home/ada/b"]') == '["{run_dir}/a", "~/b"]'


def test_text_in_quotes_is_replaced_in_its_json_form() -> None:
    redact = Redaction({'pass"word': "[redacted]"})
    assert json.loads(redact(json.dumps('a pass"word'))) == "a [redacted]"


def test_secret_variables_are_found_by_their_names() -> None:
    environment = {"API_TOKEN": "abcdef123", "TOKEN_FILE": "/run/token", "DEBUG_TOKEN": "true", "HOME": "/home/ada"}
    assert secrets_in(environment) == {"abcdef123": "[redacted]"}


def test_redacted_text_is_in_no_record() -> None:
    writer = EvidenceWriter(HEADER, redact=Redaction({"/tmp/dh-1": "{run_dir}"}))
    writer.add(0.5, "registration", ProcessStarted("main", 7, ("./driver", "--dir=/tmp/dh-1/plugins")))
    (record,) = writer.evidence.records
    assert record.what == ProcessStarted("main", 7, ("./driver", "--dir={run_dir}/plugins"))
