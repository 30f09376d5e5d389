"""Published accuracies by batch size, each with its source, to lay behind one's own."""

import csv
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.resources import files


@dataclass(frozen=True)
class Series:
    """One source's accuracies of one recipe, over batch sizes; in percent, as published."""

    source: str
    dataset: str
    loss: str
    recipe: str  # encoder, epochs, temperature, rule
    metric: str
    points: tuple[tuple[int, float], ...]  # (batch size, accuracy), ascending
    note: str


def series(datasets: Iterable[str], losses: Iterable[str], metric: str) -> list[Series]:
    """What is known of these datasets and losses, by catalog name; rows of published.csv that differ in batch size."""
    datasets, losses = set(datasets), set(losses)
    found: defaultdict[tuple[str, str, str, str, str], list[tuple[int, float]]] = defaultdict(list)
    text = files("ablation.report").joinpath("published.csv").read_text(encoding="utf-8")
    for row in csv.DictReader(text.splitlines()):
        if row["dataset"] in datasets and row["loss"] in losses and row["metric"] == metric:
            recipe = [row["encoder"], f"{row['epochs']} epochs"]
            recipe += [f"temperature {row['temperature']}"] if row["temperature"] else []
            recipe += [f"{row['lr_rule']} rule"] if row["lr_rule"] else []
            key = (row["source"], row["dataset"], row["loss"], ", ".join(filter(None, recipe)), row["note"])
            found[key].append((int(row["batch_size"]), float(row["accuracy"])))
    return [
        Series(source, dataset, loss, recipe, metric, tuple(sorted(points)), note)
        for (source, dataset, loss, recipe, note), points in found.items()
    ]
