"""What a trial measures of the process that it runs in."""

import torch

from ablation import environment

CPU = torch.device("cpu")
MEGABYTES = 400


def test_memory_kept_from_earlier_work_is_no_part_of_a_later_peak() -> None:
    environment.keep_freed_memory()
    environment.reset_peak_memory(CPU)
    tensors = [torch.ones(2**20) for _ in range(MEGABYTES // 4)]  # each below the size that is mapped alone
    high = environment.peak_memory(CPU)
    del tensors
    environment.reset_peak_memory(CPU)
    low = environment.peak_memory(CPU)
    assert high is not None
    assert low is not None
    assert high - low > 0.9 * MEGABYTES * 2**20
