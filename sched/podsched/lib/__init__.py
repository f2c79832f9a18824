"""Leaves that need nothing but the standard library."""
