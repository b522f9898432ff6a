"""The checks of `unit`: one file each."""
