"""Runs regions of a joint graph chunk by chunk, so that their inner tensors never exist whole."""
