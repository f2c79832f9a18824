"""The objects of Kubernetes as protobuf messages, and pure functions over them."""
