"""One check, in a process of its own."""

import sys

from ablation.doctor import answer

answer(*sys.argv[1:])
