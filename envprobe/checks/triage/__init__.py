"""The checks of `triage`: one for each cause of a failed start."""
