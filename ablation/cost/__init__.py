"""What cells cost on this machine, measured on a few real steps: seconds, memory, and what follows from them."""
