"""What became of the calls, as plain module attributes.

`envprobe inspect` and `workers` read them from outside; nothing else is needed to see whether the
kernel runs.
"""

from __future__ import annotations

taken = 0
"""Calls that the bundled kernel answered, those while a CUDA graph was recorded among them."""
recorded = 0
"""Calls taken while a CUDA graph was recorded: a replay runs the kernel without calling Python, so
no counter moves."""
fallen_back = 0
"""Verify calls that went to SGLang's own kernel."""
other_modes = 0
"""Calls of forward_extend that are no verify step: always SGLang's."""
compared = 0
"""Calls of the mode `validate` whose two results were compared."""
differing = 0
"""Those whose results differed by more than bfloat16 explains."""
last_reason = ""
"""Why the last call fell back."""
reasons: dict[str, int] = {}
"""How often each reason made a call fall back."""
unused = ""
"""Why SGLang will never call the patched class under this command line; empty if it will."""
