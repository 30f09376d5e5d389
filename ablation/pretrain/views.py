"""Two random views of every image of a batch, all at once, with parameters drawn per image and view.

SimCLR's augmentation (arXiv:2002.05709, appendix A): random resized crop, flip, colour jitter, grayscale, Gaussian
blur. `draw` chooses every random number on the CPU, `apply` computes the views where the images are; each operation
gives what torchvision's gives for the same parameters.

Shapes: B images; N = 2B views, view 1 of every image and then view 2; C channels (1 or 3); S pixels a side.
"""

import math
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from ablation.cell import Views
from ablation.pretrain.random import stream

Table = NDArray[np.float64]  # uniforms in [0, 1), a row per view

_TRIES: Final = 10  # boxes drawn before a crop gives up and keeps the whole image, as in torchvision
_LOG_RATIO: Final = math.log(4 / 3)  # aspect ratios are log-uniform in 3/4 .. 4/3
_JITTER_PROBABILITY: Final = 0.8
_SIGMA: Final = (0.1, 2.0)  # pixels
_BRIGHTNESS, _CONTRAST, _SATURATION, _HUE = range(4)
_PART_BYTES: Final = 2**28  # of the views that are made at a time: what is made on the way takes a few times as much
_CPU_BLOCK_BYTES: Final = 2**20  # of the views that are resampled at a time: as much as a core's cache holds

# Columns of the table of uniforms, one row per image and view. The layout never depends on what is switched on, so
# that switching one operation off changes no other.
_AREA = slice(0, _TRIES)
_RATIO = slice(_TRIES, 2 * _TRIES)
_TOP, _LEFT, _FLIP, _JITTER = range(2 * _TRIES, 2 * _TRIES + 4)
_FACTORS = slice(_JITTER + 1, _JITTER + 5)
_ORDER = slice(_FACTORS.stop, _FACTORS.stop + 4)
_GRAYSCALE, _BLUR, _SIGMA_AT = range(_ORDER.stop, _ORDER.stop + 3)
_COLUMNS: Final = _SIGMA_AT + 1


@dataclass(frozen=True)
class Parameters:
    """What happens to each of the N views, on the CPU; an operation that happens to none is None.

    The k jitter operations are brightness, contrast, saturation and hue, or the first two on 1-channel images, where
    the others do nothing.
    """

    top: Tensor  # (N,) int64, pixels
    left: Tensor
    height: Tensor
    width: Tensor
    flip: Tensor | None  # (N,) bool
    factors: Tensor | None  # (N, k) float32; 1, 1, 1, 0 where a view is not jittered
    order: Tensor | None  # (N, k) int64: the operation that comes first, second, ...
    grayscale: Tensor | None  # (N,) bool
    sigma: Tensor | None  # (N,) float32, pixels; 0 where a view is not blurred

    def of(self, rows: Tensor) -> "Parameters":
        """Those of some of the views."""
        return replace(self, **{name: value[rows] for name, value in vars(self).items() if value is not None})


def draw(
    views: Views, seed: int, step: int, batch_size: int, *, image_size: int, channels: int, steps: int = 1
) -> Parameters:
    """The parameters of one step's views: a function of seed, step, index in the batch and view alone.

    A smaller batch gets what the first images of a larger one get, and every loss gets the same. With `steps`, those of
    so many steps from `step` on, one after another.
    """
    tables = [stream(seed, "views", step + k).random((batch_size, 2, _COLUMNS)) for k in range(steps)]
    table = np.stack(tables).swapaxes(1, 2).reshape(-1, _COLUMNS)
    top, left, height, width = (torch.from_numpy(values) for values in _boxes(table, views.crop_scale, image_size))
    factors, order = _jitter(table, views.jitter, channels) if views.jitter else (None, None)
    flip = torch.from_numpy(table[:, _FLIP] < 0.5) if views.flip else None
    grayscale = torch.from_numpy(table[:, _GRAYSCALE] < views.grayscale) if views.grayscale and channels == 3 else None
    sigma = _blur(table, views.blur) if views.blur else None
    return Parameters(top, left, height, width, flip, factors, order, grayscale, sigma)


def apply(images: Tensor, parameters: Parameters) -> Tensor:
    """The views of `images` (B, C, S, S), uint8: (2B, C, S, S), float32 in [0, 1], on the images' device.

    Those of several steps' images (steps, B, C, S, S) follow one another: (steps x 2B, C, S, S).
    """
    pixels = images.float().div_(255)
    pairs = torch.stack((pixels, pixels), dim=-5).flatten(0, -4)
    x = _separable(pairs, *_crop_weights(parameters, images.shape[-1], images.device))
    if parameters.factors is not None and parameters.order is not None:
        _apply_jitter(x, parameters.factors, parameters.order)
    if parameters.grayscale is not None:
        rows = parameters.grayscale.nonzero().squeeze(1).to(x.device)
        x.index_copy_(0, rows, _luma(x.index_select(0, rows)).expand(-1, x.shape[1], -1, -1))
    if parameters.sigma is not None:
        weights = _blur_weights(parameters.sigma.to(x.device), images.shape[-1])
        x = _separable(x, weights, weights)
    return x


def normalise(x: Tensor, mean: Tensor, std: Tensor) -> Tensor:
    """(x - mean) / std, channel by channel, in channels_last memory: x (N, C, S, S) is overwritten; mean, std (C,)."""
    x.sub_(mean.view(-1, 1, 1)).div_(std.view(-1, 1, 1))
    return x.contiguous(memory_format=torch.channels_last)


class ViewMaker:
    """Makes the normalised views of the steps' batches of uint8 images."""

    def __init__(
        self, views: Views, image_size: int, channels: int, mean: tuple[float, ...], std: tuple[float, ...], seed: int
    ) -> None:
        self._views, self._image_size, self._channels, self._seed = views, image_size, channels, seed
        self._mean, self._std = torch.tensor(mean), torch.tensor(std)

    def __call__(self, images: Tensor, step: int) -> Tensor:
        """(B, C, S, S) uint8 -> (2B, C, S, S) float32 in channels_last memory, on the images' device.

        Images of several steps from `step` on, (steps, B, C, S, S), give what each step would give alone, to the bit,
        one after another: (steps x 2B, C, S, S).
        """
        parameters = draw(
            self._views,
            self._seed,
            step,
            images.shape[-4],
            image_size=self._image_size,
            channels=self._channels,
            steps=math.prod(images.shape[:-4]),
        )
        self._mean, self._std = self._mean.to(images.device), self._std.to(images.device)
        if math.prod(images.shape[:-4]) == 1 and 8 * images.numel() > _PART_BYTES:
            return self._in_parts(images.flatten(0, -4), parameters)
        return normalise(apply(images, parameters), self._mean, self._std)

    def _in_parts(self, images: Tensor, parameters: Parameters) -> Tensor:
        """The views of one step's images, so many at a time that little memory is needed beside the result."""
        shape, form = (2 * len(images), *images.shape[1:]), torch.channels_last
        views = torch.empty(shape, device=images.device, memory_format=form)
        most = max(1, _PART_BYTES // (8 * images[0].numel()))
        for rows in torch.arange(len(views)).view(2, -1).split(most, dim=1):  # type: ignore[no-untyped-call]
            part = apply(images[rows[0, 0] : rows[0, -1] + 1], parameters.of(rows.flatten()))
            views[rows.flatten().to(views.device)] = normalise(part, self._mean, self._std)
        return views


# Drawing


def _between(low: float, high: float, uniform: Table) -> Table:
    return low + (high - low) * uniform


def _boxes(table: Table, scale: tuple[float, float], size: int) -> tuple[NDArray[np.int64], ...]:
    """Top, left, height and width as torchvision's RandomResizedCrop.get_params draws them on square images."""
    area = size * size * _between(*scale, table[:, _AREA])
    ratio = np.exp(_between(-_LOG_RATIO, _LOG_RATIO, table[:, _RATIO]))
    sides = np.full((2, len(table), _TRIES + 1), size)  # the last candidate, the whole image, always fits
    sides[0, :, :_TRIES] = np.rint(np.sqrt(area / ratio))
    sides[1, :, :_TRIES] = np.rint(np.sqrt(area * ratio))
    fits = ((sides > 0) & (sides <= size)).all(0)
    height, width = sides[:, np.arange(len(table)), fits.argmax(1)]
    top = (table[:, _TOP] * (size - height + 1)).astype(np.int64)
    left = (table[:, _LEFT] * (size - width + 1)).astype(np.int64)
    return top, left, height, width


def _jitter(table: Table, strength: float, channels: int) -> tuple[Tensor, Tensor]:
    """Factors and order of the jitter operations, (N, 4) each, or (N, 2) on 1-channel images."""
    colour, hue = 0.8 * strength, 0.2 * strength
    low, high = np.array([max(0, 1 - colour)] * 3 + [-hue]), np.array([1 + colour] * 3 + [hue])
    jittered = table[:, _JITTER, None] < _JITTER_PROBABILITY
    factors = np.where(jittered, low + (high - low) * table[:, _FACTORS], (1, 1, 1, 0)).astype(np.float32)
    order = table[:, _ORDER].argsort(1)
    if channels == 1:
        factors, order = factors[:, :2], order[order <= _CONTRAST].reshape(-1, 2)
    return torch.from_numpy(factors), torch.from_numpy(order)


def _blur(table: Table, probability: float) -> Tensor:
    sigma = np.where(table[:, _BLUR] < probability, _between(*_SIGMA, table[:, _SIGMA_AT]), 0)
    return torch.from_numpy(sigma.astype(np.float32))


# Applying


def _separable(x: Tensor, vertical: Tensor, horizontal: Tensor) -> Tensor:
    """V @ x @ H^T for every channel of x (N, C, S, S), with the weights V and H (N, S, S)."""
    views = _CPU_BLOCK_BYTES // (x[0].numel() * x.element_size()) if x.device.type == "cpu" else len(x)
    result = torch.empty_like(x)
    for start in range(0, len(x), max(1, views)):
        block = slice(start, start + max(1, views))
        wide = torch.bmm(x[block].flatten(1, 2), horizontal[block].mT).view_as(x[block])
        torch.matmul(vertical[block].unsqueeze(1), wide, out=result[block])
    return result


def _per_view(values: Tensor, device: torch.device) -> Tensor:
    """(N, ...) -> (N, ..., 1, 1, 1) on `device`, to meet images (N, C, S, S)."""
    return values.to(device, non_blocking=True)[..., None, None, None]


def _crop_weights(parameters: Parameters, size: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Vertical and horizontal weights, (N, S, S) each: row o says which pixels make up output pixel o.

    Bilinear with antialias: a triangle around the output pixel's centre, as wide as the crop is scaled down, cut off
    at the box and normalised. A flip reverses the order of the output pixels.
    """
    start = torch.stack((parameters.top, parameters.left)).to(device, torch.float32)[..., None]  # (2, N, 1)
    length = torch.stack((parameters.height, parameters.width)).to(device, torch.float32)[..., None]
    scale = length / size
    reach = scale.clamp(min=1)  # half of the triangle's base, in input pixels
    pixels = torch.arange(0.5, size, device=device)  # centres
    inputs = pixels - start  # of the input pixels, from the box's corner
    outputs = scale * pixels / reach
    inputs = torch.where((inputs > 0) & (inputs < length), inputs / reach, torch.inf)
    if parameters.flip is not None:
        outputs[1] = torch.where(parameters.flip.to(device)[:, None], outputs[1].flip(-1), outputs[1])
    weights = inputs[:, :, None] - outputs[..., None]
    torch.sub(1, weights.abs_(), out=weights).clamp_(min=0)
    vertical, horizontal = weights.div_(weights.sum(-1, keepdim=True))
    return vertical, horizontal


def _luma(x: Tensor) -> Tensor:
    """(N, 3, S, S) -> (N, 1, S, S), with torchvision's weights."""
    red, green, blue = x.unbind(1)
    return red.mul(0.2989).add_(green, alpha=0.587).add_(blue, alpha=0.114).unsqueeze(1)


def _blend(x: Tensor, ratio: Tensor, to_mean: Tensor, to_luma: Tensor) -> None:
    """Makes x ratio x + to_mean mean(luma) + to_luma luma, clamped to [0, 1]; the coefficients are (N, 1, 1, 1)."""
    if x.shape[1] == 1:
        target = x.mean((1, 2, 3), keepdim=True).mul_(to_mean)
        x.mul_(ratio).add_(target)  # addcmul is slower where the target, too, is one number for a view
    else:
        luma = _luma(x)
        mean = luma.mean((1, 2, 3), keepdim=True)
        target = luma.mul_(to_luma).add_(mean.mul_(to_mean))
        torch.addcmul(target, x, ratio, out=x)
    x.clamp_(0, 1)


def _apply_jitter(x: Tensor, factors: Tensor, order: Tensor) -> None:
    """Jitters x (N, C, S, S) in place, each view in its own order, clamped after every operation.

    Brightness f x, contrast f x + (1 - f) mean(luma) and saturation f x + (1 - f) luma are one blend with different
    coefficients, so that all views take their k-th blend at once; before it, hue is turned where that comes next.
    """
    is_hue = order == _HUE
    blends = order[~is_hue].view(len(order), -1)  # of 3-channel images without hue
    ratios = factors.gather(1, blends)
    to_mean = _per_view((1 - ratios) * (blends == _CONTRAST), x.device)
    to_luma = _per_view((1 - ratios) * (blends == _SATURATION), x.device)
    ratios = _per_view(ratios, x.device)
    for k in range(order.shape[1]):
        if x.shape[1] == 3:
            _turn_hue(x, factors[:, _HUE] * is_hue[:, k])
        if k < blends.shape[1]:
            _blend(x, ratios[:, k], to_mean[:, k], to_luma[:, k])


def _turn_hue(x: Tensor, turns: Tensor) -> None:
    """Adds `turns` (N,), on the CPU, within -1/2 .. 1/2, to the HSV hue of x (N, 3, S, S), in place.

    With the hue in sextants, h in [0, 6), a colour is low + (high - low) w, where w falls from 1 to 0 between 1 and 2
    sextants' distance from red (0), green (2) or blue (4): HSV and back without leaving RGB.
    """
    turned = turns.nonzero().squeeze(1)
    rows = turned.to(x.device)
    colour = x.index_select(0, rows).clamp_(0, 1)
    red, green, blue = colour.unbind(1)
    high, low = red.maximum(green).maximum(blue), red.minimum(green).minimum(blue)
    spread = high - low
    # lerp with weights 0 and 1 selects; torch.where takes 20 times as long on CPUs
    chosen = torch.empty_like(high)
    sextant = (red - green).add_(spread, alpha=4)
    sextant.lerp_((blue - red).add_(spread, alpha=2), torch.eq(high, green, out=chosen))
    sextant.lerp_(green - blue, torch.eq(high, red, out=chosen))
    sextant.div_(spread.clamp(min=torch.finfo(x.dtype).tiny))
    hue = sextant.div_(6).add_((1 + turns[turned]).to(x.device)[:, None, None]).frac_().mul_(6)
    torch.sub(hue, 3, out=red).abs_().sub_(1)
    torch.sub(2, torch.sub(hue, 2, out=green).abs_(), out=green)
    torch.sub(2, torch.sub(hue, 4, out=blue).abs_(), out=blue)
    x.index_copy_(0, rows, colour.clamp_(0, 1).mul_(spread[:, None]).add_(low[:, None]))


def _blur_weights(sigma: Tensor, size: int) -> Tensor:
    """(N, S, S): row o holds the Gaussian around pixel o, folded back at the borders; the identity where sigma is 0."""
    reach = _kernel_size(size) // 2
    offsets = torch.arange(-reach, reach + 1, device=sigma.device)
    kernel = torch.softmax(-((offsets / (math.sqrt(2) * sigma.clamp(min=1e-6)[:, None])) ** 2), dim=1)
    sources = (torch.arange(size, device=sigma.device) + offsets[:, None]).abs()
    sources = size - 1 - (size - 1 - sources).abs()
    taps = F.one_hot(sources, size).to(kernel.dtype)
    return torch.matmul(kernel, taps.flatten(1)).view(-1, size, size)


def _kernel_size(size: int) -> int:
    """A tenth of the image's side, made odd, at least 3 pixels."""
    return max(3, size // 10 | 1)
