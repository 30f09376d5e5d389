"""How a running sweep comes to an early end that loses nothing."""

import contextlib
import secrets
import signal
from collections.abc import Callable
from types import FrameType
from typing import Any, Self

from ray import tune

from ablation.ledger import Ledger

GRACE = 12.0  # seconds that running cells get to write a checkpoint


class _Abort(BaseException):
    """Ends the sweep at once; no `except Exception` on the way may stop it."""


class Unsaved:
    """Tune pickles what it is given, for a restore that never comes; of these objects it gets an empty shell."""

    def __reduce__(self) -> tuple[type, tuple[()]]:
        return object, ()


class Stop(Unsaved, tune.Stopper):
    """A request to stop: running cells save and the sweep ends within the grace.

    SIGINT and SIGTERM make one; a second signal ends the sweep at once.
    """

    def __init__(self, ledger: Ledger, tell: Callable[[str], None]) -> None:
        """`tell` hears the reason."""
        self.file = ledger.folder / f".stop-{secrets.token_hex(4)}"  # what the workers look at
        self.reason: str | None = None
        self.running: set[str] = set()
        self._awaited: set[str] = set()  # cells that were running when the stop was asked for
        self._tell = tell

    def request(self, reason: str) -> None:
        """Begins to stop; the first reason counts."""
        if self.reason is not None:
            return
        self.reason = reason
        self._awaited = set(self.running)
        with contextlib.suppress(OSError):  # on a full disk the grace ends the cells
            self.file.touch()
        signal.setitimer(signal.ITIMER_REAL, GRACE)
        self._tell(reason)

    def __enter__(self) -> Self:
        self._before = {number: signal.signal(number, self._asked) for number in (signal.SIGINT, signal.SIGTERM)}
        self._before[signal.SIGALRM] = signal.signal(signal.SIGALRM, self._abort)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> bool:
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in self._before.items():
            signal.signal(number, handler)
        with contextlib.suppress(OSError):
            self.file.unlink(missing_ok=True)
        return kind is _Abort

    def _asked(self, number: int, frame: FrameType | None) -> None:
        if self.reason is not None:
            self._abort(number, frame)
        self.request(f"stopped by {signal.Signals(number).name}")

    def _abort(self, _number: int, _frame: FrameType | None) -> None:
        raise _Abort

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        """Tune's question whether to stop one trial: a trial stops itself."""
        return False

    def stop_all(self) -> bool:
        """Tune's question whether to start no more trials and end."""
        return self.reason is not None and not self._awaited & self.running
