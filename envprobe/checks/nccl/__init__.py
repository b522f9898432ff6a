"""Checks of a log of NCCL: each returns findings about ranks, processes or files."""
