"""Trains any PyTorch model within a byte budget.

    model = torch.compile(model, backend="isthmus", options={"budget": "2GiB"})

The backend plans the graph of the training step: it saves each tensor for the backward or recomputes it there, so that the peak of the step
stays within the budget at the least cost that is found. `fit` takes what the whole training may hold of its device instead. `plan_for` tells
beforehand what a device can train.
"""

from . import hooks
from .ahead.plan_for import Forecast, Way, plan_for
from .backend import backend
from .cost_file import measure
from .device.ledger import Ledger
from .explanation import Explanation, GraphExplanation, explain, view
from .fitting import fit
from .options import Options
from .partitioner import Partitioner
from .peak import measured_peak
from .reports import GraphReport, Report, StepReport, report
from .steps.registry import reset

__all__ = [
    "Explanation",
    "Forecast",
    "GraphExplanation",
    "GraphReport",
    "Ledger",
    "Options",
    "Partitioner",
    "Report",
    "StepReport",
    "Way",
    "backend",
    "explain",
    "fit",
    "measure",
    "measured_peak",
    "plan_for",
    "report",
    "reset",
    "view",
]

hooks.register("isthmus", backend)
