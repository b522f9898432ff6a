"""What the kernel computes, in torch and fp32, one request after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kernel_ext.build import VALUE_DIM

if TYPE_CHECKING:
    from torch import Tensor

    from kernel_ext.launch import Batch


def reference_attention(
    q: Tensor, draft_keys: Tensor, pool: Tensor, batch: Batch, scale: float
) -> tuple[Tensor, Tensor]:
    """Compute attention in fp32, and the same with the absolute amounts of the values.

    Both are (tokens, heads, 512); the inputs are shaped as in `VerifyAttention.__call__`. The
    second tensor is what `allowed_error` needs. A row that sees no key is zero. Reads lengths on
    the host.
    """
    import torch

    out = torch.zeros((*q.shape[:2], VALUE_DIM), dtype=torch.float32, device=q.device)
    amounts = torch.zeros_like(out)
    queries, prefixes = batch.qo_indptr.tolist(), batch.kv_indptr.tolist()
    masks = batch.mask_indptr.tolist()
    for request in range(len(queries) - 1):
        begin, end = queries[request : request + 2]
        slots = batch.kv_indices[prefixes[request] : prefixes[request + 1]]
        drafts, prefix = end - begin, len(slots)
        if drafts == 0:
            continue
        keys = torch.cat([pool[slots.long(), 0], draft_keys[begin:end, 0]]).float()
        mask = batch.mask[masks[request] :][: drafts * (prefix + drafts)]
        hidden = mask.view(drafts, prefix + drafts)[:, prefix:] == 0
        scores = torch.einsum("thd,kd->thk", q[begin:end].float(), keys) * scale
        scores[:, :, prefix:].masked_fill_(hidden[:, None], float("-inf"))
        weights = scores.softmax(-1).nan_to_num(0.0)
        out[begin:end] = torch.einsum("thk,kd->thd", weights, keys[:, :VALUE_DIM])
        amounts[begin:end] = torch.einsum("thk,kd->thd", weights, keys[:, :VALUE_DIM].abs())
    return out, amounts


def allowed_error(expected: Tensor, amounts: Tensor) -> Tensor:
    """Return the largest error that bfloat16 explains, for each element of the output.

    A probability is rounded to bfloat16 before it meets the values, and so is the output; one
    rounding changes a number by 2^-9 of it at most. The sum of probabilities is taken before they
    are rounded. So the error is at most 2^-9 (sum of p |v| + |out|); twice that is allowed, and
    1e-6, for scores, whose fp32 sums are taken in another order.
    """
    return 2**-8 * (amounts + expected.abs()) + 1e-6
