"""Convert quantities to integer amounts of resources, and print amounts as Kueue does."""

from __future__ import annotations

from podsched.api.quantity import canonical, milli_value, value

_BINARY = ("memory", "ephemeral-storage")


def amount(resource: str, quantity: str) -> int:
    """Return a quantity in thousandths of a CPU, or units of another resource, rounded up.

    Raises QuantityError.
    """
    return milli_value(quantity) if resource == "cpu" else value(quantity)


def amount_text(resource: str, number: int) -> str:
    """Return an amount of a resource as a quantity in Kubernetes' canonical form."""
    if resource == "cpu":
        return canonical(f"{number}m")
    binary = resource in _BINARY or resource.startswith("hugepages-")
    if binary and number and number % 1024 == 0:
        return canonical(f"{number // 1024}Ki")
    return canonical(str(number))
