"""A profile's plugins, created once, and the code that calls and measures them."""
