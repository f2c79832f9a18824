"""Objects whose readers are counted."""

from __future__ import annotations

from typing import Any

from podsched.api.objects import AnyObject


class Visited(dict[str, AnyObject]):
    """Objects that count how many of them were looked at."""

    visits = 0

    def values(self) -> Any:
        for item in super().values():
            self.visits += 1
            yield item

    def items(self) -> Any:
        for item in super().items():
            self.visits += 1
            yield item

    def get(self, key: str, default: Any = None) -> Any:
        self.visits += 1
        return super().get(key, default)
