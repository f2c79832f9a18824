"""Answers about decisions: explain, what-if, simulate, the decision log, the page."""
