"""Signing keys, and API servers that issue tokens of ServiceAccounts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from podsched.api.etcd_keys import local_key, object_key
from podsched.api.kinds import kind_of
from podsched.api.objects import AnyObject
from podsched.lib.certificates import new_signing_key
from podsched.serve.server.access.settings import ServiceAccountSettings
from podsched.serve.server.watchcache import WatchCache
from podsched.serve.store.protocol import EventType, KeyValue, WatchBatch, WatchEvent


def write_signing_key(path: Path) -> Path:
    """A new private key in a file."""
    path.write_bytes(new_signing_key()[0])
    return path


def account_settings(directory: Path, **more: Any) -> ServiceAccountSettings:
    """Settings of a server with a signing key of its own."""
    key = write_signing_key(directory / "sa.key")
    return ServiceAccountSettings(signing_key=str(key), **more)


def feed(cache: WatchCache, item: AnyObject) -> None:
    """An object is stored, or replaces the one of the same name."""
    kind, revision = kind_of(item), cache.revision + 1
    key = object_key(kind, local_key(kind, item.metadata.namespace, item.metadata.name))
    value = KeyValue(key, item.SerializeToString(), revision, revision, 1)
    cache.apply(WatchBatch(revision, [WatchEvent(EventType.PUT, value)]))


def gone(cache: WatchCache, item: AnyObject) -> None:
    """An object is removed."""
    kind, revision = kind_of(item), cache.revision + 1
    key = object_key(kind, local_key(kind, item.metadata.namespace, item.metadata.name))
    value = KeyValue(key, b"", 0, revision, 0)
    cache.apply(WatchBatch(revision, [WatchEvent(EventType.DELETE, value)]))
