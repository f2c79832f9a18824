"""Create the objects that every namespace has: a ServiceAccount ``default``, and the root CA.

    ServiceAccount default        the account of pods that name none
    ConfigMap kube-root-ca.crt    the certificates by which pods verify the API server

They are created in active namespaces that lack them. A kube-controller-manager creates them, too;
the second attempt to create one has no effect. The ConfigMap has an annotation with a hash of the
certificates. It is changed only if the hash differs from that of the current certificates, so later
changes by other writers stay. Source: serviceaccounts_controller.go of
pkg/controller/serviceaccount and publisher.go of
pkg/controller/certificates/rootcacertpublisher, v1.36.
"""

from __future__ import annotations

import hashlib
from abc import abstractmethod
from collections.abc import Callable
from typing import ClassVar

from podsched.api.conditions import is_terminating
from podsched.api.etcd_keys import local_key
from podsched.api.kinds import KINDS
from podsched.api.objects import AnyObject, ConfigMap, ServiceAccount
from podsched.api.service_accounts import DEFAULT_ACCOUNT, ROOT_CA_CONFIG_MAP
from podsched.serve.client.cluster import object_patch
from podsched.serve.client.informer import Event
from podsched.term.controllers.controller import Instant, Objects, QueueController, Ref
from podsched.term.controllers.write_queues import Writes

_HASH = "podsched.io/root-ca-hash"
_DESCRIPTION = (
    "Contains a CA bundle that can be used to verify the kube-apiserver when using internal "
    "endpoints such as the internal service IP or kubernetes.default.svc."
)
_FILE = "ca.crt"


class _NamespaceObjects(QueueController):
    """Keeps one object in each active namespace."""

    kind: ClassVar[str]
    object_name: ClassVar[str]

    @property
    def kinds(self) -> tuple[str, ...]:
        return ("Namespace", self.kind)

    def changed(self, event: Event, now: Instant) -> None:
        namespace, _, name = event.key.partition("/")
        if event.old is None if event.kind == "Namespace" else name == self.object_name:
            self._queue.add(Ref("Namespace", namespace))

    def _examine(self, ref: Ref, now: Instant) -> None:
        found = self._objects.get(*ref)
        if found is None or is_terminating(found):
            return
        key = local_key(KINDS[self.kind], ref.key, self.object_name)
        present = self._objects.get(self.kind, key)
        retry = self._queue.adder(ref)
        if present is None:
            self._writes.send(key, self._made(ref.key), retry)
        else:
            self._update(key, present, retry)

    @abstractmethod
    def _made(self, namespace: str) -> AnyObject:
        """Return the object of a namespace."""

    def _update(self, key: str, present: AnyObject, retry: Callable[[], None]) -> None:
        """Change an object that is outdated."""


class ServiceAccountController(_NamespaceObjects):
    """Makes the ServiceAccount ``default`` in each namespace."""

    name = "serviceaccount"
    kind = "ServiceAccount"
    object_name = DEFAULT_ACCOUNT

    def _made(self, namespace: str) -> AnyObject:
        return ServiceAccount(metadata={"namespace": namespace, "name": DEFAULT_ACCOUNT})


class RootCaPublisher(_NamespaceObjects):
    """Makes the ConfigMap with the certificates of the API servers' authority.

    Sees only the metadata of ConfigMaps.
    """

    name = "root-ca-certificate-publisher"
    kind = "ConfigMap"
    object_name = ROOT_CA_CONFIG_MAP

    def __init__(self, objects: Objects, writes: Writes, certificates: str) -> None:
        """certificates: in PEM."""
        super().__init__(objects, writes)
        self._certificates = certificates
        self._hash = hashlib.sha256(certificates.encode()).hexdigest()

    def _made(self, namespace: str) -> AnyObject:
        made = ConfigMap(metadata={"namespace": namespace, "name": ROOT_CA_CONFIG_MAP})
        made.metadata.annotations["kubernetes.io/description"] = _DESCRIPTION
        made.metadata.annotations[_HASH] = self._hash
        made.data[_FILE] = self._certificates
        return made

    def _update(self, key: str, present: AnyObject, retry: Callable[[], None]) -> None:
        annotations = present.metadata.annotations
        if _HASH not in annotations or annotations[_HASH] == self._hash:
            return
        body = {
            "metadata": {"annotations": {_HASH: self._hash}},
            "data": {_FILE: self._certificates},
        }
        self._writes.send(key, object_patch(present, body), retry)
