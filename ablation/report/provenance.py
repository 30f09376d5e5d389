"""Where a report's records come from: code, versions, hardware, data; and whether that is one place or several."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ablation.record import Environment, Record

_ENVIRONMENT = {
    "commit": "Commit",
    "dirty": "Uncommitted changes",
    "package": "ablation",
    "python": "Python",
    "torch": "torch",
    "numpy": "NumPy",
    "platform": "Platform",
    "processor": "Processor",
    "threads": "Threads",
    "device": "Device",
    "device_name": "Device name",
    "compiled": "Compiled network",
    "micro_batch": "Micro-batch",
}

_OF_TRAINING = ("compiled", "micro_batch")  # None where a record trained nothing


@dataclass(frozen=True)
class Fact:
    """A property of the records with each of its values and how many records have it."""

    name: str
    values: Counter[str]

    @property
    def mixed(self) -> bool:
        """Whether the records differ in it."""
        return len(self.values) > 1


def provenance(records: Iterable[Record]) -> list[Fact]:
    """The facts of code, machine and data, in a fixed order; empty without records."""
    records = list(records)
    environments = [record.environment for record in records]
    facts = [Fact(title, Counter(_values(environments, field))) for field, title in _ENVIRONMENT.items()]
    facts.append(Fact("Evaluation protocol", Counter(record.cell.evaluation.text for record in records)))
    for dataset in dict.fromkeys(dataset_of(record) for record in records):
        sums = [record.data_checksum for record in records if dataset_of(record) == dataset]
        facts.append(Fact(f"Data checksum, {dataset}", Counter(checksum for checksum in sums if checksum)))
    return [fact for fact in facts if fact.values]


def dataset_of(record: Record) -> str:
    """The dataset's name; an image folder's with its fingerprint and size, since there may be several."""
    name, known = record.cell.dataset.name, record.cell.dataset.parameters
    return f"{name} {str(known['fingerprint'])[:8]} at {known['image_size']}" if "fingerprint" in known else name


def _values(environments: Sequence[Environment], field: str) -> list[str]:
    if field in _OF_TRAINING:
        environments = [environment for environment in environments if getattr(environment, field) is not None]
    words = {None: "unknown", True: "yes", False: "no"}
    values = [getattr(environment, field) for environment in environments]
    return [words[value] if value is None or isinstance(value, bool) else str(value) for value in values]
