"""Notices when failures have one cause, such as a broken node or a full GPU that somebody else uses."""

import re
from collections import Counter

from ablation.record import Record, Status

FEWEST = 4  # failures before anything is concluded
SHARE = 0.75  # of the cells that ended in this launch


class Breaker:
    """Hears of every cell that ends in one launch, and says why the sweep should pause, once it should.

    Only `failed` counts: diverged, out-of-memory and timed-out cells are results of the sweep.
    """

    def __init__(self) -> None:
        self._errors: Counter[str] = Counter()
        self._ended = 0
        self._by_host: dict[str, list[bool]] = {}

    def hears(self, record: Record) -> str | None:
        """The reason to pause, or None."""
        failed = record.status is Status.FAILED
        self._ended += 1
        host = self._by_host.setdefault(record.environment.host, [])
        host.append(failed)
        if not failed or record.failure is None:
            return None
        error = _signature(record.failure.kind, record.failure.message)
        self._errors[error] += 1
        same = self._errors[error]
        if same >= FEWEST and same >= SHARE * self._ended:
            return f"{same} of the {self._ended} cells that ended failed with the same error: {error}"
        others_work = any(not all(endings) for endings in self._by_host.values())
        if len(host) >= FEWEST and all(host) and others_work:
            return f"all {len(host)} cells on the node {record.environment.host} failed, the last with: {error}"
        return None


def _signature(kind: str, message: str) -> str:
    """The error without what differs from cell to cell: numbers and addresses."""
    lines = message.strip().splitlines() or [""]
    return f"{kind}: {re.sub(r'0x[0-9a-f]+|[0-9]+', '#', lines[-1])[:200]}"
