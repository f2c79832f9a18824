"""The engine: runs a profile's plugins over columns, and drives scheduling and binding cycles."""
