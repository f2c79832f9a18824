"""Options of ``sched apiserver`` about what etcd keeps, and what is kept in memory for watches."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from podsched.serve.server.settings import ServerSettings

_DEFAULTS = ServerSettings()
_STORAGE, _WATCHES = "Storage", "Watches"

CompactionInterval = Annotated[
    float,
    typer.Option(
        metavar="SECONDS",
        min=0.0,
        rich_help_panel=_STORAGE,
        help="Interval at which etcd's history is compacted; 0 leaves that to etcd.",
    ),
]
Quota = Annotated[
    int,
    typer.Option(
        metavar="BYTES",
        min=1,
        rich_help_panel=_STORAGE,
        help="etcd's --quota-backend-bytes; a warning is logged at 80 % of it.",
    ),
]
EventTtl = Annotated[
    int,
    typer.Option(
        metavar="SECONDS",
        min=1,
        rich_help_panel=_STORAGE,
        help="Time after which Event objects are deleted.",
    ),
]
MaxEvents = Annotated[
    int,
    typer.Option(
        metavar="N",
        min=1,
        rich_help_panel=_STORAGE,
        help="Number of Event objects beyond which the oldest are deleted.",
    ),
]
CacheEvents = Annotated[
    int,
    typer.Option(
        metavar="N",
        min=1,
        rich_help_panel=_WATCHES,
        help="Number of changes kept in memory for watches that lag or resume.",
    ),
]
CacheBytes = Annotated[
    int,
    typer.Option(
        metavar="BYTES",
        min=1,
        rich_help_panel=_WATCHES,
        help="Maximum size of these changes, in bytes of encoded events.",
    ),
]
BookmarkInterval = Annotated[
    float,
    typer.Option(
        metavar="SECONDS",
        min=0.05,
        max=5.0,
        rich_help_panel=_WATCHES,
        help="Time after which an idle watch gets a bookmark with the current revision.",
    ),
]


def storage_settings(
    etcd_compaction_interval: CompactionInterval = _DEFAULTS.compaction_interval_seconds,
    etcd_quota_bytes: Quota = _DEFAULTS.etcd_quota_bytes,
    event_ttl: EventTtl = _DEFAULTS.event_ttl_seconds,
    max_events: MaxEvents = _DEFAULTS.max_events,
    watch_cache_events: CacheEvents = _DEFAULTS.watch_cache_events,
    watch_cache_bytes: CacheBytes = _DEFAULTS.watch_cache_bytes,
    watch_bookmark_interval: BookmarkInterval = _DEFAULTS.bookmark_seconds,
) -> dict[str, Any]:
    """Return the fields of ``ServerSettings`` that the options are about."""
    return {
        "compaction_interval_seconds": etcd_compaction_interval,
        "etcd_quota_bytes": etcd_quota_bytes,
        "event_ttl_seconds": event_ttl,
        "max_events": max_events,
        "watch_cache_events": watch_cache_events,
        "watch_cache_bytes": watch_cache_bytes,
        "bookmark_seconds": watch_bookmark_interval,
    }
