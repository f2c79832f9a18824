"""Backfill: units start out of order if they delay no unit that has a reservation.

- ``profile``: what is free of quota and nodes over time, as far as the ends of units are known
- ``plan``: which units start now, and which get a reservation for later

Pure: times are seconds, and ``now`` is an argument.
"""
