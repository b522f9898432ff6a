"""A target program by itself: starts the NCCL that TEST_NCCL names, then lives until stdin ends.

It says `ready` on standard error, so that standard output is NCCL's alone.
"""

from __future__ import annotations

import os
import sys

import nccl_load

assert nccl_load.loaded
os.write(2, b"ready\n")
sys.stdin.read()
