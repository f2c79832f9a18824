"""CEL, the Common Expression Language, as Kubernetes v1.36 has it (cel-go v0.26)."""
