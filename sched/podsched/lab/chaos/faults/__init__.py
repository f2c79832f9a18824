"""How each fault is done and undone. ``kinds`` has all of them by name."""
