"""Works on the first cell of a sweep file, to be killed: ``python -m ablation.doctor.worker FILE FOLDER DEVICE``."""

import sys
from pathlib import Path

import torch

from ablation.ledger import Ledger
from ablation.plan import read
from ablation.pretrain.data import load
from ablation.trial import Trial


def main(file: str, folder: str, device: str) -> None:
    """Runs the cell, with a checkpoint whenever one may be written."""
    plan = read(Path(file))
    cell = plan.cells[0].cell
    torch.set_num_threads(1)
    images = load(cell.dataset, plan.resources.root(), download=False)
    Trial(cell, images, Ledger(Path(folder)), torch.device(device), checkpoint_interval=0.0).run()


if __name__ == "__main__":
    main(*sys.argv[1:])
