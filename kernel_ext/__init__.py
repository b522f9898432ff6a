"""Verify attention for tree speculation over a latent (MLA) KV pool, and SGLang's patch for it.

Nothing is imported here: `kernel_ext.patch` must be importable where there is no GPU, no torch and
no CUDA package.
"""
