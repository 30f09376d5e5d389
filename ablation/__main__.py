"""``python -m ablation``."""

from ablation.cli import main

main()
