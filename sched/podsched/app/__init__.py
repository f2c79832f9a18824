"""Composition root: builds every object, starts every task and process, owns their shutdown."""
