"""Imported by a target program: loads the NCCL that TEST_NCCL names and lets it start.

`ncclGetUniqueId` needs no GPU: NCCL reads its settings and its configuration file and logs that.
The C stream of standard output is flushed, as NCCL of 2.21 and before writes its banner there.
"""

from __future__ import annotations

import ctypes
import os

loaded = [ctypes.CDLL(path) for path in os.environ["TEST_NCCL"].split(":")]
for library in loaded:
    if library.ncclGetUniqueId(ctypes.create_string_buffer(128)):
        raise RuntimeError("ncclGetUniqueId failed")
ctypes.CDLL(None).fflush(None)
