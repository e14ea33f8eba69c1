"""Isthmus: plans which tensors of a training step to keep and which to recompute, so that the step fits in a byte budget.

    problem = isthmus.Problem("step")
    x = problem.add("x", bytes=4096, pinned=True)
    y = problem.add("f", [x], cost=2.5, bytes=4096)
    problem.outputs = [y]
    plan = isthmus.plan(problem, "60%")
    plan.schedule, plan.figures.peak_bytes

Importing this package imports neither NumPy nor PyTorch.
"""

from ._library import version as _version
from .errors import BadInput, Cancelled, CannotBeMet, Error, Internal, OutOfMemory, Unsupported
from .graph import Compiled, Graph, Placed
from .planning import Figures, Plan, plan
from .problem import Op, Problem
from .session import RunFigures, Session, Tensor

__all__ = [
    "BadInput",
    "Cancelled",
    "CannotBeMet",
    "Compiled",
    "Error",
    "Figures",
    "Graph",
    "Internal",
    "Op",
    "OutOfMemory",
    "Placed",
    "Plan",
    "Problem",
    "RunFigures",
    "Session",
    "Tensor",
    "Unsupported",
    "plan",
]
__version__ = _version()
