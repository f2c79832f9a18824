"""Numbers with their nouns, for messages."""

from __future__ import annotations


def counted(number: int, noun: str) -> str:
    """Return the number and the noun, in the plural unless the number is 1: ``1,200 pods``."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
