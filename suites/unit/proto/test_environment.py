"""Environment variables of this process and of its child processes."""

import os

import pytest

from drahealth.proto.package import environment_of_others, silence_grpc

NAME = "GRPC_VERBOSITY"


def test_grpc_is_silent_here_and_not_in_other_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(NAME, raising=False)
    silence_grpc()
    assert (os.environ[NAME], environment_of_others().get(NAME)) == ("NONE", None)


def test_grpc_verbosity_of_the_user_is_kept_and_inherited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(NAME, "DEBUG")
    silence_grpc()
    assert (os.environ[NAME], environment_of_others()[NAME]) == ("DEBUG", "DEBUG")
