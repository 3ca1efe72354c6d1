"""The scenarios of KEP-4680. None of them knows which target it runs on."""

import os

# Read when gRPC is first imported; its notes on connections that end are no news where plugins crash on purpose.
os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
