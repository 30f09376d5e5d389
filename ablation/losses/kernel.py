"""The two statistics of which every loss of the family is made, with exact gradients in O(N + block^2) memory.

Shapes: B images, two views each; N = 2B rows; z is (N, d) with rows of unit length. Row i's positive is row
(i + B) mod N, the other view of its image; its negatives are the 2B - 2 rows of the other images.

    s_ij = z_i . z_j / temperature      s_pos_i = s_i,p(i)      lse_neg_i = logsumexp over negatives j of s_ij
    v_i = lse_neg_i - s_pos_i = log xi_i

Since self and positive are the only two rows of the same image, "other image" is the whole mask: seen as
(image, view, image, view), the masked logits are one diagonal. Blocks are therefore blocks of images, both views.
"""

import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from itertools import combinations_with_replacement
from typing import Any, ParamSpec, TypeVar

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

P = ParamSpec("P")
T = TypeVar("T")
Temperature = float | Tensor  # a tensor has no dimension; it may require a gradient

# Of the logits formed at a time. On a CPU, tiles of 0.5 to 4 MiB measure alike. Elsewhere launching kernels is what
# costs, so that fewer and larger tiles are better.
_CPU_TILE_BYTES = 2**20
_DEVICE_TILE_BYTES = 64 * 2**20
_FEWEST_BLOCKS = 4  # of images: with fewer, the tiles on the diagonal, which are computed whole, cost too much


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
        block: images whose logits with as many others, (2 block, 2 block), are formed at a time; by default as many
            as a cache holds.

    Raises:
        ValueError: the rows are odd in number or fewer than 4, or `block` is below 1.
    """
    images = count_images(z)
    if block is None:
        block = _usual_block(images, z)
    if block < 1:
        raise ValueError(f"a block holds at least one image, not {block}")
    with _without_autocast(z):
        if block >= images:
            lse_neg, s_pos = _Whole.apply(z, temperature)
        else:
            fused = torch.compiler.is_compiling()
            # not as its decorator, which would import the compiler with this module
            tiled = torch.compiler.disable(_tiled) if fused else _tiled  # type: ignore[no-untyped-call]
            lse_neg, s_pos = tiled(z, temperature, block, fused)
    return lse_neg, s_pos


def _usual_block(images: int, z: Tensor) -> int:
    tile = _CPU_TILE_BYTES if z.device.type == "cpu" else _DEVICE_TILE_BYTES
    most = math.isqrt(tile // (4 * z.element_size()))
    return images if images <= most else max(1, min(images // _FEWEST_BLOCKS, most))


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


class _Whole(torch.autograd.Function):
    """Forms all logits at once and keeps them for backward: what few images are fastest with."""

    @staticmethod
    def forward(ctx: Any, z: Tensor, temperature: Temperature) -> tuple[Tensor, Tensor]:
        images = len(z) // 2
        scaled = z / temperature
        logits = scaled @ z.T
        pairs = logits.diagonal(images)
        s_pos = torch.cat((pairs, pairs))
        logits.view(2, images, 2, images).diagonal(0, 1, 3).fill_(-torch.inf)
        lse_neg = logits.logsumexp(1)
        ctx.save_for_backward(scaled, logits, lse_neg)
        return lse_neg, s_pos

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_lse: Tensor, grad_pos: Tensor) -> tuple[Tensor, Tensor | None]:
        scaled, logits, lse_neg = ctx.saved_tensors
        images = len(logits) // 2
        with _without_autocast(scaled):
            weights = (logits - lse_neg[:, None]).exp_().mul_(grad_lse[:, None])
            weights = weights + weights.T  # row i as an anchor, and as a negative of row j
            pair_grad = grad_pos[:images] + grad_pos[images:]  # s_pos is one number for the two anchors of an image
            weights.diagonal(images).copy_(pair_grad)
            weights.diagonal(-images).copy_(pair_grad)
            grad = weights @ scaled
        return grad, _grad_temperature(scaled, grad) if ctx.needs_input_grad[1] else None


class _Tiled(torch.autograd.Function):
    """Works in square tiles on and above the diagonal, since s is symmetric: a block of images against another.

    Recomputes the logits for backward, tile by tile. Inside, the two views of an image are neighbours, so that a block
    is a slice.

    Results are written into tensors made before the loop: a small tensor that outlives its tile would keep the C
    library's heap from reusing the tile's memory, and the process would grow to the size of the full matrix.
    """

    @staticmethod
    def forward(
        ctx: Any,
        z: Tensor,
        temperature: Temperature,
        block: int,
        fused: bool,  # noqa: FBT001
    ) -> tuple[Tensor, Tensor]:
        z = _neighbours(z)
        scaled = z / temperature
        lse_neg = torch.full((len(z),), -torch.inf, dtype=_wide(z), device=z.device)
        of_tile = _fused(_sums) if fused else _sums
        for rows, columns in _tiles(len(z), block):
            of_rows, of_columns = of_tile(scaled[rows], z[columns], rows == columns)
            lse_neg[rows] = lse_neg[rows].logaddexp(of_rows)
            if of_columns is not None:
                lse_neg[columns] = lse_neg[columns].logaddexp(of_columns)
        lse_neg = lse_neg.to(z.dtype)
        s_pos = (scaled[0::2] * z[1::2]).sum(1)
        ctx.save_for_backward(z, scaled, lse_neg)
        ctx.block, ctx.fused = block, fused
        return _by_view(lse_neg), torch.cat((s_pos, s_pos))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_lse: Tensor, grad_pos: Tensor) -> tuple[Tensor, Tensor | None, None, None]:
        z, scaled, lse_neg = ctx.saved_tensors
        grad_lse = _neighbours(grad_lse)
        pair_grad = grad_pos.view(2, -1).sum(0)  # s_pos is one number for the two anchors of an image
        grad = (scaled.view(-1, 2, z.shape[1]).flip(1) * pair_grad[:, None, None]).view_as(z).to(_wide(z))
        of_tile = _fused(_weights) if ctx.fused else _weights
        with _without_autocast(z):
            for rows, columns in _tiles(len(z), ctx.block):
                anchors = (lse_neg[rows], lse_neg[columns], grad_lse[rows], grad_lse[columns])
                weights = of_tile(scaled[rows], z[columns], *anchors, rows == columns)
                _add_product(grad[rows], weights, scaled[columns])
                if rows != columns:
                    _add_product(grad[columns], weights.T, scaled[rows])
        grad = grad.to(z.dtype)
        return _by_view(grad), _grad_temperature(scaled, grad) if ctx.needs_input_grad[1] else None, None, None


def _tiled(z: Tensor, temperature: Temperature, block: int, fused: bool) -> tuple[Tensor, Tensor]:  # noqa: FBT001
    """Never traced as a whole, which would unroll its loops; `fused`: what is done with a tile is compiled."""
    lse_neg, s_pos = _Tiled.apply(z, temperature, block, fused)
    return lse_neg, s_pos


def _grad_temperature(scaled: Tensor, grad: Tensor) -> Tensor:
    """By Euler: s is homogeneous of degree 2 in z and -1 in the temperature: t dL/dt = -<z, dL/dz> / 2."""
    return (scaled * grad).sum(dtype=_wide(grad)).mul(-0.5)


def _wide(tensor: Tensor) -> torch.dtype:
    """What tiles are summed in: so that their number, which depends on batch and device, adds no rounding error."""
    return torch.promote_types(tensor.dtype, torch.float32)


def _add_product(total: Tensor, left: Tensor, right: Tensor) -> None:
    """Total += left @ right, in the dtype of `total`."""
    if total.dtype == left.dtype:
        total.addmm_(left, right)
    else:
        total.add_(left @ right)


@cache
def _fused(function: Callable[P, T]) -> Callable[P, T]:
    return torch.compile(function, dynamic=False)


def _sums(scaled_rows: Tensor, z_columns: Tensor, diagonal: bool) -> tuple[Tensor, Tensor | None]:  # noqa: FBT001
    """A tile's share of lse_neg: that of its rows, and where it is off the diagonal that of its columns."""
    logits = _logits(scaled_rows, z_columns, diagonal)
    return logits.logsumexp(1), None if diagonal else logits.logsumexp(0)


def _weights(
    scaled_rows: Tensor,
    z_columns: Tensor,
    lse_rows: Tensor,
    lse_columns: Tensor,
    grad_rows: Tensor,
    grad_columns: Tensor,
    diagonal: bool,  # noqa: FBT001
) -> Tensor:
    """dL/ds_ij, both ways: row i receives z_j by it, and row j receives z_i.

    As an anchor g_i exp(s_ij - lse_i), and as a negative of the other anchor g_j exp(s_ij - lse_j).
    """
    logits = _logits(scaled_rows, z_columns, diagonal)
    weights = (logits - lse_rows[:, None]).exp_().mul_(grad_rows[:, None])
    return weights.addcmul_(logits.sub_(lse_columns).exp_(), grad_columns)


def _neighbours(rows: Tensor) -> Tensor:
    """(2B, ...), view by view -> image by image, its two views side by side."""
    return rows.view(2, len(rows) // 2, *rows.shape[1:]).transpose(0, 1).reshape(rows.shape)


def _by_view(rows: Tensor) -> Tensor:
    """The inverse of `_neighbours`."""
    return rows.view(len(rows) // 2, 2, *rows.shape[1:]).transpose(0, 1).reshape(rows.shape)


def _tiles(count: int, block: int) -> Iterator[tuple[slice, slice]]:
    """Of `count` rows, each block of images with itself and with every later one."""
    blocks = [slice(start, min(start + 2 * block, count)) for start in range(0, count, 2 * block)]
    return combinations_with_replacement(blocks, 2)


def _logits(scaled_rows: Tensor, z_columns: Tensor, diagonal: bool) -> Tensor:  # noqa: FBT001
    """s_ij of a tile; of one on the diagonal with -inf where j is i or its positive."""
    logits = scaled_rows @ z_columns.T
    if diagonal:
        logits.view(len(logits) // 2, 2, -1, 2).diagonal(0, 0, 2).fill_(-torch.inf)
    return logits


def _without_autocast(z: Tensor) -> AbstractContextManager[None]:
    kind = z.device.type
    return torch.autocast(kind, enabled=False) if torch.is_autocast_enabled(kind) else nullcontext()
