"""The protobuf messages of the Kubernetes API that clients in Go send. Read by descriptor (`ci/proto/generate`)."""
