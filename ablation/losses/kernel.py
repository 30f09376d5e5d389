"""The two statistics of which every loss of the family is made, with exact gradients in O(N x block) memory.

Shapes: B images, two views each; N = 2B rows; z is (N, d) with rows of unit length. Row i's positive is row
(i + B) mod N, the other view of its image; its negatives are the 2B - 2 rows of the other images.

    s_ij = z_i . z_j / temperature      s_pos_i = s_i,p(i)      lse_neg_i = logsumexp over negatives j of s_ij
    v_i = lse_neg_i - s_pos_i = log xi_i

Since self and positive are the only two rows of the same image, "other image" is the whole mask: seen as
(view, image, view, image), the masked logits are one diagonal. Blocks are therefore blocks of images, both views.
"""

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

Temperature = float | Tensor  # a tensor has no dimension; it may require a gradient

# On a CPU, 1 to 8 MiB measure alike at B 2048; 4 MiB also hold B 512 in one block, where nothing is recomputed.
# Elsewhere launching kernels is what costs, so that fewer and larger blocks are better.
_CPU_BLOCK_BYTES = 4 * 2**20
_DEVICE_BLOCK_BYTES = 64 * 2**20


def log_xi(z: Tensor, temperature: Temperature) -> Tensor:
    """Every anchor's v = log xi, (2B,): how far the negatives outweigh the positive. See `contrast`."""
    lse_neg, s_pos = contrast(z, temperature)
    return lse_neg - s_pos


def contrast(z: Tensor, temperature: Temperature, block: int | None = None) -> tuple[Tensor, Tensor]:
    """The statistics (lse_neg, s_pos) of every anchor, each (2B,).

    Logits, reductions and gradient have the dtype of `z`, under autocast too. Differentiable once, in `z` and in a
    temperature that is a tensor.

    Args:
        z: (2B, d) rows of unit length, B >= 2; rows i and i + B are the views of image i.
        temperature: above 0.
        block: images whose logits, (2 block, 2B), are formed at a time; by default as many as a cache holds.

    Raises:
        ValueError: the rows are odd in number or fewer than 4, or `block` is below 1.
    """
    images = count_images(z)
    if block is None:
        block_bytes = _CPU_BLOCK_BYTES if z.device.type == "cpu" else _DEVICE_BLOCK_BYTES
        block = max(1, block_bytes // (4 * images * z.element_size()))
    if block < 1:
        raise ValueError(f"a block holds at least one image, not {block}")
    with _without_autocast(z):
        lse_neg, s_pos = _Contrast.apply(z, temperature, min(block, images))
    return lse_neg, s_pos


def drawn_logits(z: Tensor, temperature: Temperature, chosen: Tensor) -> tuple[Tensor, Tensor]:
    """Every anchor's positive logit, (2B,), and those of its K `chosen` negatives, (2B, K); forms the dense logits.

    Args:
        z: as in `contrast`.
        temperature: above 0.
        chosen: (2B, K), for each anchor rows of `z`.
    """
    images = count_images(z)
    logits = z @ z.T / temperature
    return logits.diagonal(images).repeat(2), logits.gather(1, chosen)


def count_images(z: Tensor) -> int:
    """B of a (2B, d) batch of views.

    Raises:
        ValueError: `z` is not two views of at least two images: one image has no negatives.
    """
    if z.ndim != 2 or len(z) % 2 or len(z) < 4:
        raise ValueError(f"z should be (2B, d), two views of B >= 2 images, not of shape {tuple(z.shape)}")
    return len(z) // 2


class _Contrast(torch.autograd.Function):
    """Keeps the logits for backward where one block holds them all, recomputes them block by block otherwise.

    Results are written into tensors made before the loop: a small tensor that outlives its block would keep the C
    library's heap from reusing the block's memory, and the process would grow to the size of the full matrix.
    """

    @staticmethod
    def forward(ctx: Any, z: Tensor, temperature: Temperature, block: int) -> tuple[Tensor, Tensor]:
        images = len(z) // 2
        scaled = z / temperature
        logits, lse_neg = None, z.new_empty(2, images)
        for start in range(0, images, block):
            logits = _logits(scaled, z, start, block)
            lse_neg[:, start : start + block] = logits.logsumexp(2)
        s_pos = (scaled[:images] * z[images:]).sum(1)
        ctx.save_for_backward(z, scaled, lse_neg, logits if block == images else None)
        ctx.block = block
        return lse_neg.flatten(), torch.cat((s_pos, s_pos))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_lse: Tensor, grad_pos: Tensor) -> tuple[Tensor, Tensor | None, None]:
        z, scaled, lse_neg, kept = ctx.saved_tensors
        images = len(z) // 2
        anchor_lse, anchor_grad = lse_neg[:, :, None], grad_lse.view(2, images, 1)
        grad = scaled.new_empty(2, images, z.shape[1])
        with _without_autocast(z):
            for start in range(0, images, ctx.block):
                logits = _logits(scaled, z, start, ctx.block) if kept is None else kept
                rows = slice(start, start + ctx.block)
                # s is symmetric: row i receives what it does as an anchor and what it does as a negative of anchor j,
                # g_i exp(s_ij - lse_i) + g_j exp(s_ij - lse_j), and one product with z collects both.
                weights = (logits - anchor_lse[:, rows]).exp_().mul_(anchor_grad[:, rows])
                weights.addcmul_((logits - lse_neg.flatten()).exp_(), grad_lse)
                grad[:, rows] = (weights.flatten(0, 1) @ scaled).view(2, -1, z.shape[1])
        # s_pos is one number for the two rows of an image, so that each row gets both anchors' gradients.
        pairs = scaled.view(2, images, -1).flip(0)
        grad = grad.addcmul_(pairs, grad_pos.view(2, images, 1).sum(0)).view_as(z)
        # s is homogeneous of degree 2 in z and -1 in the temperature (Euler): t dL/dt = -<z, dL/dz> / 2.
        grad_temperature = (scaled * grad).sum().mul(-0.5) if ctx.needs_input_grad[1] else None
        return grad, grad_temperature, None


def _logits(scaled: Tensor, z: Tensor, start: int, block: int) -> Tensor:
    """s_ij of the images from `start`, (2, block, 2B), with -inf where j is i or its positive."""
    images = len(z) // 2
    rows = scaled.view(2, images, -1)[:, start : start + block].flatten(0, 1)
    logits = (rows @ z.T).view(2, -1, 2, images)
    logits.diagonal(start, 1, 3).fill_(-torch.inf)
    return logits.flatten(2)


def _without_autocast(z: Tensor) -> AbstractContextManager[None]:
    kind = z.device.type
    return torch.autocast(kind, enabled=False) if torch.is_autocast_enabled(kind) else nullcontext()
