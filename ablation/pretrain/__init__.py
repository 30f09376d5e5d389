"""Contrastive pretraining: data, views, encoder, optimiser, loop, checkpoint."""
