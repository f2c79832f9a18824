"""Well-known labels of nodes, and their names before Kubernetes 1.17."""

from __future__ import annotations

from typing import Final

ARCH: Final = "kubernetes.io/arch"
HOSTNAME: Final = "kubernetes.io/hostname"
INSTANCE_TYPE: Final = "node.kubernetes.io/instance-type"
OS: Final = "kubernetes.io/os"
REGION: Final = "topology.kubernetes.io/region"
ZONE: Final = "topology.kubernetes.io/zone"
BETA_ARCH: Final = "beta.kubernetes.io/arch"
BETA_INSTANCE_TYPE: Final = "beta.kubernetes.io/instance-type"
BETA_OS: Final = "beta.kubernetes.io/os"
BETA_REGION: Final = "failure-domain.beta.kubernetes.io/region"
BETA_ZONE: Final = "failure-domain.beta.kubernetes.io/zone"
#: Pods may still select nodes by the beta label, which has the value of the stable one.
BETA_OF: Final = {OS: BETA_OS, ARCH: BETA_ARCH}
