"""Backfill: units start out of order if they delay no unit that has a reservation.

- ``profile``: what is free of quota over time, as far as the ends of units are known
- ``plan``: what is reserved, and when a unit can start beside it

Pure: times are seconds, and ``now`` is an argument.
"""
