"""A finished pretraining run: the encoder with how it came to be, on disk as safetensors that other tools can read."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import safetensors
import safetensors.torch
from torch import nn

from ablation import durable
from ablation.cell import Cell
from ablation.pretrain.encoder import Encoder, build_encoder, build_head, weights_hash
from ablation.record import History


@dataclass
class Trained:
    """An encoder ready for evaluation. Without pretraining it is as initialised, has no head and saw no step."""

    encoder: Encoder
    head: nn.Module | None = None
    history: History = field(default_factory=History)
    steps: int = 0
    samples: int = 0
    seconds: float = 0.0
    first_batch_hash: str | None = None
    compiled: bool | None = None
    micro_batch: int | Literal["all"] | None = None

    def save(self, path: Path, cell: Cell) -> None:
        """Writes weights (``encoder.*``, ``head.*``) and, as metadata, the cell and the rest; atomic."""
        assert self.head is not None
        weights = nn.ModuleDict({"encoder": self.encoder, "head": self.head})
        metadata = {
            "pretraining_key": cell.pretraining_key,
            "cell": cell.model_dump_json(),
            "weights_hash": weights_hash(weights),
            "history": self.history.model_dump_json(),
            "run": json.dumps(
                {
                    "steps": self.steps,
                    "samples": self.samples,
                    "seconds": self.seconds,
                    "first_batch_hash": self.first_batch_hash,
                    "compiled": self.compiled,
                    "micro_batch": self.micro_batch,
                }
            ),
        }
        tensors = {name: tensor.cpu().contiguous() for name, tensor in weights.state_dict().items()}
        durable.write(path, safetensors.torch.save(tensors, metadata))

    @classmethod
    def load(cls, path: Path, cell: Cell, *, image_size: int, channels: int) -> "Trained":
        """What `save` wrote for this cell's pretraining; every weight must be there and as it was.

        Raises:
            FileNotFoundError: there is no such file.
            durable.DamagedError: the file is not what `save` wrote, or not of this cell's pretraining.
        """
        assert cell.pretraining is not None
        path.stat()
        encoder = build_encoder(cell.encoder, image_size=image_size, channels=channels, seed=cell.seed)
        head = build_head(cell.pretraining.projection, features=encoder.features, seed=cell.seed)
        weights = nn.ModuleDict({"encoder": encoder, "head": head})
        try:
            with safetensors.safe_open(path, framework="pt") as file:
                metadata = file.metadata() or {}
                weights.load_state_dict({name: file.get_tensor(name) for name in file.keys()})  # noqa: SIM118
            history, run = History.model_validate_json(metadata["history"]), json.loads(metadata["run"])
            if metadata["pretraining_key"] != cell.pretraining_key or metadata["weights_hash"] != weights_hash(weights):
                raise ValueError("its weights are not those of this pretraining")  # noqa: TRY301
            return cls(encoder, head, history, **run)
        except (safetensors.SafetensorError, KeyError, ValueError, TypeError, RuntimeError, OSError) as error:
            raise durable.DamagedError(f"not a trained encoder of {cell.pretraining_key}: {error}") from error
