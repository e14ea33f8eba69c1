"""Counts the memory of inductor's code for a plan before that code is compiled, and asks for another plan if it is above the budget."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import torch
from torch._dynamo.utils import counters
from torch._inductor.custom_graph_pass import CustomSchedulerPass

from ..graph.joint import STEP
from .fusions import fuse_within, parts_apart
from .limits import AboveBudget, Limits
from .memory import Code, function_ends, live_at_nodes

_CODE_BYTES = "isthmus_code_bytes"  # inductor's counter that has the peak of the code of one graph


class Attempt(Protocol):
    """A partitioner that plans one graph, once."""

    limits: Limits | None
    """The limits of the plan; None: there is no plan."""

    def uuid(self) -> str: ...

    def again(self) -> Any:
        """Returns an attempt that makes another plan, because the code of this one took more than it may; or raises."""

    def compiled(self) -> None:
        """Is called once the code is compiled. `limits` then has the bytes that the code takes."""


def within_limits(attempt: Any, compile: Callable[[Any, dict[str, Any]], Any]) -> tuple[Any, Any]:
    """Returns the result of `compile` and the attempt whose plan it follows. There are further attempts as long as the code takes more than it may.
    compile: takes an attempt and settings of inductor, and calls the attempt if the graph has a backward."""
    while True:
        try:
            with parts_apart():
                made = compile(attempt, {"_pre_fusion_custom_pass": Watch(attempt)})
        except AboveBudget:
            made = None
        if attempt.limits is None:  # the graph has no backward, and so no plan
            return made, attempt
        if not attempt.limits.excess_bytes:
            attempt.limits.most_bytes = None  # a backward that is compiled later, when it is called, gets no other plan
            attempt.compiled()
            return made, attempt
        attempt = attempt.again()


def counted(attempt: Attempt, is_backward: bool, compile: Callable[[], Any]) -> Any:
    """Returns the result of `compile`, which compiles one graph. Counts the memory of code that comes from inductor's cache too: inductor keeps,
    with the code, by how much its compilation raised each of inductor's counters, and raises them again when it finds the code."""
    counters["inductor"].pop(_CODE_BYTES, None)
    made = compile()
    peak = counters["inductor"].pop(_CODE_BYTES, 0)
    if attempt.limits is not None:
        attempt.limits.note(is_backward, [((), peak)])
    return made


class Watch(CustomSchedulerPass):
    """Counts the memory of each graph that inductor compiles, once the graph's code is generated."""

    def __init__(self, attempt: Attempt) -> None:
        self._attempt = attempt

    def uuid(self) -> str:
        return self._attempt.uuid()

    def __deepcopy__(self, memo: Any) -> Watch:
        return self  # inductor copies its settings

    def __call__(self, nodes: list[Any]) -> list[Any]:
        from torch._inductor.graph import SubgraphLowering
        from torch._inductor.virtualized import V

        limits = self._attempt.limits
        if limits is not None and not isinstance(V.graph, SubgraphLowering):
            _watch(V.graph, limits)
        return nodes


def _watch(graph: Any, limits: Limits) -> None:
    """Counts the graph's memory when its code is generated, because until then the order of the nodes, and what is computed in place, may
    change."""
    generate = graph.wrapper_code.generate
    ended: list[Any] = []

    def generate_and_count(*args: Any, **kwargs: Any) -> Any:
        code = Code(graph, limits, is_generated=True)
        uses = [(_steps(node), live) for node, live in live_at_nodes(code, set(map(id, ended)))]
        counters["inductor"][_CODE_BYTES] = max((live for _, live in uses), default=0)
        limits.note(graph.is_backward, uses)
        return generate(*args, **kwargs)

    graph.wrapper_code.generate = generate_and_count
    fuse_within(graph.scheduler, limits, limits.room(graph.is_backward))
    for device in graph.device_types:
        if device == "cpu":
            _end_functions_in_time(graph, limits, ended)


def _steps(node: Any) -> list[int]:
    """Returns the steps of the plan that a node of the code computes. Nodes that PyTorch has put in place of ops have no step."""
    origins = (o for n in node.get_nodes() if n.node is not None for o in n.node.get_origins())
    return [o.meta[STEP] for o in origins if STEP in o.meta]


def _end_functions_in_time(graph: Any, limits: Limits, ended: list[Any]) -> None:
    """Ends C++ functions where memory is short. On the CPU inductor makes one function of neighbouring nodes, which frees what the nodes read only
    at its end."""
    backend = graph.scheduler.get_backend(torch.device("cpu"))
    is_full = backend.ready_to_flush
    ends: list[set[int]] = []

    def ready_to_flush() -> bool:
        if not ends:
            ends.append(function_ends(Code(graph, limits, is_generated=False), limits.room(graph.is_backward)))
        node = graph.scheduler.current_node
        if is_full() or id(node) in ends[0]:
            ended.append(node)
            return True
        return False

    backend.ready_to_flush = ready_to_flush
