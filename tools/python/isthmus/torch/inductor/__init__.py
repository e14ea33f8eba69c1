"""Counts the memory that inductor's generated code takes, before that code is compiled, and asks for another plan if it is above the budget.

Apart from `hooks`, this is the only package that uses private parts of PyTorch. Inductor moves ops when it fuses them, and computes some results in
place. Once a graph's code is generated, the bytes that it allocates and frees, and their order, are known exactly, except the bytes that kernels
allocate themselves.
"""
