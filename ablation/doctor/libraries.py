"""The libraries and what they see: each check imports what it is about, and runs in a process of its own."""

import time
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from ablation import catalog
from ablation.doctor.finding import Finding, Place, fix, note, ok
from ablation.errors import UserError

_DRIVERS = {"/dev/nvidia0": "an NVIDIA GPU", "/dev/kfd": "an AMD GPU", "/dev/accel/accel0": "an accelerator"}


def torch_(_: Place) -> Iterator[Finding]:
    """PyTorch: imported, and one gradient computed."""
    import torch

    weight = torch.ones(2, 2, requires_grad=True)
    (weight @ weight).sum().backward()  # type: ignore[no-untyped-call]
    assert weight.grad is not None
    assert weight.grad.tolist() == [[4.0, 4.0], [4.0, 4.0]]
    build = f"CUDA {torch.version.cuda}" if torch.version.cuda else torch.version.hip or "CPU"
    yield ok("torch", f"{torch.__version__} ({build} build)")


def torchvision_(_: Place) -> Iterator[Finding]:
    """torchvision: its compiled operations, which are there with the PyTorch alone that it was built for."""
    pair = f"{metadata.version('torchvision')} with torch {metadata.version('torch')}"
    try:
        import torch
        from torchvision.ops import nms

        nms(torch.zeros(1, 4), torch.ones(1), 0.5)
    except Exception as error:  # noqa: BLE001 - an import can fail in any way
        why = str(error).partition("\n")[0]
        yield fix("torchvision", f"{pair}: {why}: install the two versions that belong together")
    else:
        yield ok("torchvision", pair)


def accelerators(_: Place) -> Iterator[Finding]:
    """GPUs and their like: name, memory, and whether they compute."""
    import torch

    device = torch.accelerator.current_accelerator()
    if device is None or not torch.accelerator.is_available():
        there = [name for path, name in _DRIVERS.items() if Path(path).exists()]
        if there:
            advice = "install PyTorch's build for it, or its driver"
            yield note("GPUs", f"this machine has {there[0]}, but torch {torch.__version__} sees none: {advice}")
        else:
            yield ok("GPUs", "none; cells run on CPUs")
        return
    module = torch.get_device_module(device)
    for index in range(torch.accelerator.device_count()):
        one = torch.device(device.type, index)
        assert torch.ones(2, device=one).sum().item() == 2.0
        name = module.get_device_name(index) if hasattr(module, "get_device_name") else device.type
        free, total = module.mem_get_info(index) if hasattr(module, "mem_get_info") else (0, 0)
        memory = f", {free / 2**30:.0f} of {total / 2**30:.0f} GiB free" if total else ""
        yield ok(f"GPU {index}", f"{name}{memory}")


def compiler(_: Place) -> Iterator[Finding]:
    """What `compile: true` in a sweep file needs."""
    from ablation.environment import default_device
    from ablation.pretrain.execution import Execution

    try:
        Execution(compile=True).check(default_device())
    except UserError as error:
        yield note("compiler", f"none; cells run as well, but {error}")
    else:
        yield ok("compiler", "found; a sweep file may say compile: true")


def ray_(_: Place) -> Iterator[Finding]:
    """Ray: imported, and a local cluster started as a sweep starts it."""
    start = time.monotonic()
    from ablation.cost.room import Request
    from ablation.schedule.cluster import connect, room

    imported = time.monotonic()
    with connect(None):
        free, gpu_hosts = room()
        slots = free.most(Request(1.0, 1.0 if gpu_hosts else 0.0))
        started = time.monotonic()
    times = f"imported in {imported - start:.1f} s, a local cluster started in {started - imported:.1f} s"
    yield ok("ray", f"{metadata.version('ray')}, {times}; {slots} cells at once")


def datasets(place: Place) -> Iterator[Finding]:
    """Which of the catalog's datasets are here."""
    from ablation.pretrain.dataset_files import find, ways_to_get

    for name in (name for name in catalog.DATASETS if name != catalog.IMAGE_FOLDER):
        label = f"dataset {name}"
        if name == "digits":
            yield ok(label, "bundled with scikit-learn")
        elif folder := find(name, place.data_root):
            yield ok(label, f"in {folder}")
        else:
            yield note(label, f"not here: {'; or '.join(ways_to_get(name, place.data_root, download=True))}")
