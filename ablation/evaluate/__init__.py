"""What the frozen features of an encoder know: linear evaluation and weighted kNN."""
