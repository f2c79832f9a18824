"""Fakes for tests, podsched's own and those of plugins: a cluster and a store, both in memory.

They keep the contracts of the real ones; the same test suites run on both. Nothing that podsched
itself runs imports this package.
"""
