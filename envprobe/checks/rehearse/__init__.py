"""The checks of `rehearse`, one to a file."""
