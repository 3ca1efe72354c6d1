"""The environment variables that this process sets for itself, and the environment of other people's programs."""

import os

_GRPC, _QUIET = "GRPC_VERBOSITY", "NONE"


def silence_grpc() -> None:
    """Silences the log lines that gRPC writes itself: calls raise their errors. A value of the user stays.

    gRPC reads the variable when it is imported for the first time.
    """
    os.environ.setdefault(_GRPC, _QUIET)


def environment_of_others() -> dict[str, str]:
    """The environment for programs that are not ours, such as a driver under test: their gRPC logs as usual."""
    return {name: value for name, value in os.environ.items() if (name, value) != (_GRPC, _QUIET)}
