"""Formats ages of objects, as kubectl prints them."""

from __future__ import annotations


def age(seconds: float) -> str:
    """Return a duration as kubectl prints ages: 5s, 3m20s, 2h5m, 7d.

    Source: HumanDuration of k8s.io/apimachinery/pkg/util/duration; years are shown as days.
    """
    whole = max(0, int(seconds))
    if whole < 120:
        return f"{whole}s"
    if whole < 600:
        minutes, rest = divmod(whole, 60)
        return f"{minutes}m{rest}s" if rest else f"{minutes}m"
    if whole < 3 * 3600:
        return f"{whole // 60}m"
    if whole < 8 * 3600:
        hours, minutes = divmod(whole // 60, 60)
        return f"{hours}h{minutes}m" if minutes else f"{hours}h"
    if whole < 48 * 3600:
        return f"{whole // 3600}h"
    return f"{whole // 86400}d"
