"""The scenarios of KEP-4680. They are the same for all targets."""

import os

# gRPC reads this on its first import. It would log each connection that ends, and plugins crash on purpose here.
os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
