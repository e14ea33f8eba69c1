"""Reads a joint graph of PyTorch as a problem, and cuts it by a plan into a forward and a backward module."""
