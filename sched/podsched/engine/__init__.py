"""The engine: runs a profile's plugins over columns, and drives the scheduling and binding
cycles.
"""
