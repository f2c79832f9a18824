"""Index the nodes' container images by name, with their sizes, for ImageLocality."""

from __future__ import annotations

import numpy as np

from podsched.framework.nodes import Int64s, normalized_image_name
from podsched.framework.verdicts import Rows
from podsched.v1 import objects_pb2 as v1

_NONE = (np.empty(0, dtype=np.intp), np.empty(0, dtype=np.int64))


def images_of(node: v1.Node) -> dict[str, int]:
    """Return the sizes in bytes by image name; a name listed twice has the size listed last."""
    return {name: image.size_bytes for image in node.status.images for name in image.names}


class Images:
    """For each image name, the rows that have it and its size on each."""

    def __init__(self) -> None:
        self._sizes: dict[str, dict[int, int]] = {}
        self._arrays: dict[str, tuple[Rows, Int64s]] = {}

    def copy(self) -> Images:
        """Return an independent copy."""
        made = Images()
        made._sizes = {name: dict(sizes) for name, sizes in self._sizes.items()}
        # The arrays may be shared: they are replaced and never written to.
        made._arrays = dict(self._arrays)
        return made

    @property
    def names(self) -> list[str]:
        return list(self._sizes)

    def change(self, row: int, old: dict[str, int], new: dict[str, int]) -> bool:
        """Replace a row's images; return whether anything changed."""
        if old == new:
            return False
        for name in old.keys() - new.keys():
            rows = self._sizes[name]
            del rows[row]
            if not rows:
                del self._sizes[name]
            self._arrays.pop(name, None)
        for name, size in new.items():
            if old.get(name) != size:
                self._sizes.setdefault(name, {})[row] = size
                self._arrays.pop(name, None)
        return True

    def rows(self, image: str) -> tuple[Rows, Int64s]:
        """Return the rows that have the image, ascending, and its size on each.

        The name is normalised here. The arrays are cached until a node gets or loses the image.
        """
        name = normalized_image_name(image)
        found = self._arrays.get(name)
        if found is None:
            sizes = self._sizes.get(name)
            if not sizes:
                return _NONE
            ordered = sorted(sizes.items())
            found = (
                np.array([row for row, _ in ordered], dtype=np.intp),
                np.array([size for _, size in ordered], dtype=np.int64),
            )
            self._arrays[name] = found
        return found
