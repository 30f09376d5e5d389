import math
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from ablation.losses.kernel import contrast, log_xi


def views(images: int, d: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    """(2 images, d) random unit rows, ready to take a gradient."""
    generator = torch.Generator().manual_seed(seed)
    rows = F.normalize(torch.randn(2 * images, d, generator=generator, dtype=torch.float64), dim=1)
    return rows.to(dtype).requires_grad_()


def naive_contrast(z: Tensor, temperature: float | Tensor) -> tuple[Tensor, Tensor]:
    """The definition, one anchor and one negative at a time."""
    n = len(z)
    lse_neg, s_pos = [], []
    for i in range(n):
        p = (i + n // 2) % n
        s_pos.append(z[i].dot(z[p]) / temperature)
        negatives = [z[i].dot(z[j]) / temperature for j in range(n) if j not in (i, p)]
        assert len(negatives) == n - 2
        lse_neg.append(torch.stack(negatives).exp().sum().log())
    return torch.stack(lse_neg), torch.stack(s_pos)


def gradients(statistics: Callable[..., tuple[Tensor, Tensor]], z: Tensor, temperature: Tensor) -> list[Tensor]:
    """Of a sum over both statistics with weights of both signs, in z and in the temperature."""
    generator = torch.Generator().manual_seed(1)
    a, b = torch.randn(2, len(z), generator=generator, dtype=torch.float64).to(z.dtype)
    lse_neg, s_pos = statistics(z, temperature)
    return list(torch.autograd.grad((a * lse_neg + b * s_pos).sum(), (z, temperature)))


@settings(deadline=None)
@given(
    images=st.integers(2, 8),
    d=st.integers(1, 6),
    temperature=st.floats(0.02, 2),
    seed=st.integers(0, 2**32),
    block=st.sampled_from([1, 3, 7, 8, None]),
)
def test_equals_the_naive_loops_forward_and_backward(
    images: int, d: int, temperature: float, seed: int, block: int | None
) -> None:
    z = views(images, d, seed)
    t = torch.tensor(temperature, dtype=torch.float64, requires_grad=True)

    def blocked(z: Tensor, t: Tensor) -> tuple[Tensor, Tensor]:
        return contrast(z, t, block)

    torch.testing.assert_close(blocked(z, t), naive_contrast(z, t), rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(contrast(z, temperature, block), naive_contrast(z, t), rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(gradients(blocked, z, t), gradients(naive_contrast, z, t), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("block", [1, 3, 5])
def test_gradients_equal_finite_differences(block: int) -> None:
    temperature = torch.tensor(0.3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda z, t: contrast(z, t, block), (views(5, 4), temperature))


@pytest.mark.parametrize("block", [1, 3, 7])
def test_float32_blocks_equal_one_block(block: int) -> None:
    z, temperature = views(40, 16, dtype=torch.float32), torch.tensor(0.1, requires_grad=True)
    torch.testing.assert_close(contrast(z, temperature, block), contrast(z, temperature, 40))
    blocked = gradients(lambda z, t: contrast(z, t, block), z, temperature)
    torch.testing.assert_close(
        blocked, gradients(lambda z, t: contrast(z, t, 40), z, temperature), rtol=1e-5, atol=1e-5
    )


@pytest.mark.parametrize("temperature", [0.01, 0.5])
def test_identical_rows_have_2b_minus_2_equal_negatives(temperature: float) -> None:
    z = F.normalize(torch.ones(10, 3, dtype=torch.float64), dim=1)
    lse_neg, s_pos = contrast(z, temperature)
    torch.testing.assert_close(s_pos, torch.full((10,), 1 / temperature, dtype=torch.float64))
    torch.testing.assert_close(log_xi(z, temperature), torch.full((10,), math.log(8), dtype=torch.float64))
    torch.testing.assert_close(lse_neg, s_pos + math.log(8))


def test_statistics_follow_a_permutation_of_the_images() -> None:
    z = views(6, 5)
    order = torch.tensor([3, 0, 5, 1, 4, 2])
    rows = torch.cat((order, order + 6))
    permuted = contrast(z[rows], 0.1, block=4)
    for statistic, reference in zip(permuted, contrast(z, 0.1, block=4), strict=True):
        torch.testing.assert_close(statistic, reference[rows])


def test_the_lowest_temperatures_do_not_overflow_float32() -> None:
    z = torch.cat((views(3, 4, dtype=torch.float32), -views(3, 4, dtype=torch.float32))).detach().requires_grad_()
    got = contrast(z, 0.001, block=2)
    torch.testing.assert_close([x.double() for x in got], list(contrast(z.double(), 0.001)), rtol=1e-5, atol=1e-3)
    got[0].sum().backward()  # type: ignore[no-untyped-call]
    assert z.grad is not None
    assert z.grad.isfinite().all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("block", [2, 4])
def test_half_precision_rows_are_computed_in_half_precision(dtype: torch.dtype, block: int) -> None:
    z = views(4, 8, dtype=dtype)
    got = contrast(z, 0.05, block)
    assert [x.dtype for x in got] == [dtype, dtype]
    error = 2 * torch.finfo(dtype).eps * 20  # of logits up to 1 / temperature
    torch.testing.assert_close([x.double() for x in got], list(contrast(z.double(), 0.05)), rtol=0, atol=error)
    (grad,) = torch.autograd.grad(got[0].sum(), z)
    assert grad.dtype == dtype


@pytest.mark.parametrize("block", [2, 4])
def test_autocast_changes_nothing(block: int) -> None:
    z, temperature = views(4, 8, dtype=torch.float32), torch.tensor(0.05, requires_grad=True)

    def blocked(z: Tensor, t: Tensor) -> tuple[Tensor, Tensor]:
        return contrast(z, t, block)

    plain = [*blocked(z, temperature), *gradients(blocked, z, temperature)]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        under_autocast = [*blocked(z, temperature), *gradients(blocked, z, temperature)]
    torch.testing.assert_close(under_autocast, plain, rtol=0, atol=0)


class LargestOutput(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Records the elements of the largest tensor that any operation returned."""

    elements = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        for tensor in out if isinstance(out, tuple | list) else (out,):
            if isinstance(tensor, Tensor):
                self.elements = max(self.elements, tensor.numel())
        return out


@pytest.mark.parametrize(("block", "elements"), [(None, 2**18), (16, 4 * 3000)])
def test_the_full_matrix_of_logits_never_exists(block: int | None, elements: int) -> None:
    z = views(1500, 4, dtype=torch.float32)
    with LargestOutput() as largest:  # type: ignore[no-untyped-call]
        lse_neg, s_pos = contrast(z, 0.1, block)
        (lse_neg - s_pos).mean().backward()  # type: ignore[no-untyped-call]
    assert 3000 * 4 <= largest.elements <= elements < 3000**2


PEAK_GROWTH = """
import re, torch
from pathlib import Path
from ablation.losses.kernel import log_xi

def peak():
    return int(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1]) / 1024

def step(images):
    z = torch.nn.functional.normalize(torch.ones(2 * images, 4), dim=1).requires_grad_()
    log_xi(z, 0.1).mean().backward()

step(2)
before = peak()
step(3072)
print(peak() - before)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads the peak memory from Linux's /proc")
def test_the_process_does_not_grow_by_the_full_matrix_of_logits() -> None:
    run = subprocess.run([sys.executable, "-c", PEAK_GROWTH], check=True, capture_output=True, text=True)
    assert float(run.stdout) < 6144**2 * 4 / 2**20 / 2  # MiB; measured 16 to 36 of the matrix's 144


@pytest.mark.parametrize("shape", [(0, 4), (2, 4), (5, 4), (8,), (4, 2, 2)])
def test_what_is_not_two_views_of_two_images_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="two views of B >= 2 images"):
        contrast(torch.ones(shape), 0.1)


@pytest.mark.parametrize("block", [0, -1])
def test_an_empty_block_is_refused(block: int) -> None:
    with pytest.raises(ValueError, match="at least one image"):
        contrast(torch.ones(4, 2), 0.1, block)


def test_a_second_derivative_is_refused_rather_than_wrong() -> None:
    z = views(3, 4)
    (grad,) = torch.autograd.grad(log_xi(z, 0.1).exp().sum(), z, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        grad.sum().backward()  # type: ignore[no-untyped-call]


@pytest.mark.filterwarnings("ignore:The .grad attribute")  # of torch, where it goes on tracing
@pytest.mark.parametrize("block", [2, 3, 7, 8])
def test_a_compiled_caller_gets_compiled_tiles(monkeypatch: pytest.MonkeyPatch, block: int) -> None:
    compiled: list[Any] = []

    def fused(function: Any) -> Any:
        compiled.append(function)
        return torch.compile(function, backend="aot_eager", dynamic=False)

    monkeypatch.setattr("ablation.losses.kernel._fused", fused)
    z, temperature = views(8, 4), torch.tensor(0.2, dtype=torch.float64, requires_grad=True)

    def plain(z: Tensor, t: Tensor) -> tuple[Tensor, Tensor]:
        return contrast(z, t, block)

    traced = torch.compile(plain, backend="aot_eager", dynamic=False)
    torch.testing.assert_close(traced(z, temperature), plain(z, temperature))
    torch.testing.assert_close(gradients(traced, z, temperature), gradients(plain, z, temperature))
    assert {function.__name__ for function in compiled} == (set() if block == 8 else {"_sums", "_weights"})


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("temperature", [0.1, 0.5])
def test_in_half_precision_the_number_of_tiles_adds_no_error(dtype: torch.dtype, temperature: float) -> None:
    """The batch size decides how many tiles there are, and must not decide how well they are summed."""
    rows = views(512, 32, dtype=torch.float32).to(dtype).detach()

    def found(z: Tensor, block: int) -> tuple[Tensor, Tensor]:
        z = z.requires_grad_()
        lse_neg, s_pos = contrast(z, temperature, block)
        (gradient,) = torch.autograd.grad((lse_neg - s_pos).sum(), z)
        return lse_neg.detach().double(), gradient.double()

    exact = found(rows.double(), 512)
    errors = {
        block: [float((a - b).norm() / b.norm()) for a, b in zip(found(rows.clone(), block), exact, strict=True)]
        for block in (512, 128, 8)
    }
    for block in (128, 8):
        assert all(error < 1.2 * whole for error, whole in zip(errors[block], errors[512], strict=True)), errors
