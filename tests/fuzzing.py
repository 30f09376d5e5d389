"""Tests on random inputs: a few hundred each, or as many as $ABLATION_FUZZ says; `make fuzz` asks for 10,000."""

import os
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import settings

EXAMPLES = int(os.environ.get("ABLATION_FUZZ", "300"))


def fuzz(test: Callable[..., None]) -> Any:
    """Marks a test and gives it its number of examples; stands above `given`."""
    return pytest.mark.fuzz(settings(deadline=None, max_examples=EXAMPLES)(test))
