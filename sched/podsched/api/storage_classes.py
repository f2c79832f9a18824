"""Which StorageClass a claim gets that names none.

Source: plugin/pkg/admission/storage/storageclass/setdefault and pkg/volume/util/storageclass.go of
Kubernetes 1.36.
"""

from __future__ import annotations

from collections.abc import Iterable

from podsched.api.objects import PersistentVolumeClaim, StorageClass

CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"
_DEFAULT = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)


def names_class(claim: PersistentVolumeClaim) -> bool:
    """Tell whether a claim says of which class it is; "" says that it is of none."""
    return (
        claim.spec.HasField("storage_class_name") or CLASS_ANNOTATION in claim.metadata.annotations
    )


def default_class(classes: Iterable[StorageClass]) -> str:
    """Return the newest class marked as the default, of several the first by name; or ""."""
    marked = [
        (-item.metadata.creation_timestamp.seconds, item.metadata.name)
        for item in classes
        if any(item.metadata.annotations.get(key) == "true" for key in _DEFAULT)
    ]
    return min(marked)[1] if marked else ""
