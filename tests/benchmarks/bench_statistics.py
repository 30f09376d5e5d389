"""Do the report's intervals and tests keep their word on small samples of skewed accuracies? A table, by simulation.

    python -m tests.benchmarks.bench_statistics [REPLICATES]

Accuracies: 95 % on average, skewed over seeds (skewness 1), on 360 test images with binomial noise.
"""

import sys

from ablation.report import stats
from tests.report.simulation import coverage, false_alarms, family_false_alarms, simulated_pairs

FAMILY = 8


def main() -> None:
    replicates = int(sys.argv[1]) if len(sys.argv) > 1 else 5000
    sigma = (0.05 * 0.95 / replicates) ** 0.5
    lines = [
        f"{replicates:,} replicates; a rate of 5 % is known to +-{2 * sigma:.1%}",
        f"{'seeds':>5}  {'coverage of 95 %':>16}  {'false alarms at 5 %':>19}  {f'family of {FAMILY}, Holm':>18}",
    ]
    for n in (3, 5, 10):
        family = family_false_alarms(n, replicates // 4, FAMILY)
        lines.append(f"{n:5}  {coverage(n, replicates):16.1%}  {false_alarms(n, replicates):19.1%}  {family:18.1%}")
    lines.append("pairs for 80 % power, by the report's hint and by simulation:")
    lines += [
        f"  effect of {effect} sd: {stats.pairs_needed(effect)} and {simulated_pairs(effect, replicates)}"
        for effect in (0.5, 1.0, 1.7)
    ]
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
