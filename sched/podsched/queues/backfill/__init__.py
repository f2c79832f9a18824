"""Backfill: units start out of order if they delay no unit that has a reservation.

- ``profile``: used and free quota over time, as far as the ends of units are known
- ``plan``: the reservations, and when a unit can start beside them
- ``parts``: how many starts may be promised in each queue

Pure: times are seconds, and ``now`` is an argument.
"""
