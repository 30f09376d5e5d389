"""How much of a loss's value and gradient rounding takes away, by dtype, batch size and temperature.

synthetic or trained (embeddings) -> rounding (errors) -> table and figure.
"""

from ablation.numerics.rounding import Case, Errors, Finding, errors, measure

__all__ = ["Case", "Errors", "Finding", "errors", "measure"]
