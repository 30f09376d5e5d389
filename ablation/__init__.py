"""Batch-size ablation and benchmarking of contrastive learning."""

__version__ = "0.1.0"
