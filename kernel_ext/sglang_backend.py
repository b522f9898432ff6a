"""The replacement of SGLang's forward_extend, as a hook of `envprobe init-hook` wants it.

The hook is made with --patch TARGET=kernel_ext.sglang_backend:forward_extend, where TARGET is
`sglang.srt.layers.attention.triton_backend:TritonAttnBackend.forward_extend`. It imports this
module when SGLang's has been executed: the class then still has its own method, which the
replacement needs.
"""

from __future__ import annotations

import sys

from sglang.srt.layers.attention.triton_backend import TritonAttnBackend

from kernel_ext.patch import announce, replacement

forward_extend = replacement(TritonAttnBackend.forward_extend)
if forward_extend is not TritonAttnBackend.forward_extend:
    announce(sys.argv)
