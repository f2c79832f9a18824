"""A profile's plugins, made once, and the one way in which they are called."""
