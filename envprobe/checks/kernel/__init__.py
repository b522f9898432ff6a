"""The checks of `kernel`."""
