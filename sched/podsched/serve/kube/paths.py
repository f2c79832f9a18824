"""URL paths of kinds and objects in a kube-apiserver."""

from __future__ import annotations

from urllib.parse import quote

from podsched.api.kinds import Kind


def collection(kind: Kind, namespace: str = "") -> str:
    """Return the path of all objects of a kind, or of those in a namespace."""
    root = f"/apis/{kind.api_version}" if kind.group else f"/api/{kind.api_version}"
    within = f"/namespaces/{quote(namespace, safe='')}" if namespace else ""
    return f"{root}{within}/{kind.plural}"


def of_object(kind: Kind, name: str, namespace: str = "", subresource: str = "") -> str:
    """Return the path of an object, or of one of its subresources."""
    path = f"{collection(kind, namespace)}/{quote(name, safe='')}"
    return f"{path}/{subresource}" if subresource else path
