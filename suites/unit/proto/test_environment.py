"""What this process sets for itself, and what other programs inherit."""

import os

import pytest

from drahealth.proto.environment import environment_of_others, silence_grpc

NAME = "GRPC_VERBOSITY"


def test_grpc_is_silent_here_and_not_in_other_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(NAME, raising=False)
    silence_grpc()
    assert (os.environ[NAME], environment_of_others().get(NAME)) == ("NONE", None)


def test_the_value_of_the_user_stays_and_is_inherited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(NAME, "DEBUG")
    silence_grpc()
    assert (os.environ[NAME], environment_of_others()[NAME]) == ("DEBUG", "DEBUG")
