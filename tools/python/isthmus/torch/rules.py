"""What may be done with an op of a joint graph: whether it may run again, what it draws, what else it does."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import Any

import torch
from torch import fx

from ..errors import BadInput
from . import hooks

_NEVER_AGAIN = (torch.Tag.nondeterministic_bitwise, torch.Tag.data_dependent_output, torch.Tag.maybe_aliasing_or_mutating)
_PURE_NAMESPACES = ("aten", "prims")
_COMMUNICATION = ("_c10d_functional", "c10d", "_c10d_functional_autograd")
_KEPT = (hooks.CheckpointPolicy.MUST_SAVE, hooks.CheckpointPolicy.MUST_CPU_OFFLOAD)
# Seeds that inductor's own passes draw; what they seed is a pure function of them.
_SEEDS = ("inductor_seeds", "inductor_seed")

Target = Any


def allowed_targets(targets: Iterable[Target]) -> frozenset[str]:
    """Of `allow_recompute`: ops, or their names as "namespace::name"."""
    names = set()
    for target in targets:
        if isinstance(target, str):
            names.add(target)
        elif isinstance(target, torch._ops.OpOverloadPacket):
            names.add(target._qualified_op_name)
        elif isinstance(target, torch._ops.OpOverload):
            names.add(target._schema.name)
        elif isinstance(target, torch.library.CustomOpDef):
            names.add(target._qualname)
        elif isinstance(target, torch._ops.HigherOrderOperator):
            names.add(target.name())
        else:
            raise BadInput(f"allow_recompute takes ops, or names such as 'mylib::gelu'; got {target!r}")
    return frozenset(names)


def name_of(node: fx.Node) -> str:
    """As a person would look for it: "aten::mm"."""
    schema = getattr(node.target, "_schema", None)
    if schema is not None:
        return str(schema.name)
    name = getattr(node.target, "name", None)
    return str(name()) if callable(name) else getattr(node.target, "__name__", str(node.target))


def is_copy_into(node: fx.Node) -> bool:
    return node.target is torch.ops.aten.copy_.default


def mutates(node: fx.Node) -> bool:
    return isinstance(node.target, torch._ops.OpOverload) and node.target._schema.is_mutable


def is_seed(node: fx.Node) -> bool:
    return isinstance(node.target, torch._ops.OpOverload) and node.target._opname in _SEEDS


def draws(node: fx.Node) -> bool:
    """From a generator, whose state it moves on."""
    return is_seed(node) or hooks.is_rng_op(node)


def communicates(node: fx.Node) -> bool:
    return isinstance(node.target, torch._ops.OpOverload) and node.target.namespace in _COMMUNICATION


def waits(node: fx.Node) -> bool:
    """Its result is its operand, though neither its schema nor the storage says so."""
    return communicates(node) and node.target._opname == "wait_tensor"  # type: ignore[union-attr]


def acts(node: fx.Node) -> bool:
    """It does something beside giving its result, or gives another one each time."""
    return mutates(node) or draws(node) or communicates(node) or bool(node.is_impure())


def must_be_in_backward(node: fx.Node) -> bool:
    tag = node.meta.get("partitioner_tag")
    return tag == "must_be_in_backward" or (tag == "is_backward" and (mutates(node) or draws(node) or communicates(node)))


def is_batch_norm_in_training(node: fx.Node) -> bool:
    """It normalizes by the batch; the averages that it also reads and changes are for later."""
    return node.target is torch.ops.aten._native_batch_norm_legit_functional.default and node.args[5] is True


def without_averages(graph: fx.Graph, args: tuple[Any, ...]) -> fx.Node:
    """The same batch norm, the first three of its results: the averages may have changed since it first ran."""
    x, weight, bias, _, _, training, momentum, eps = args
    return graph.call_function(torch.ops.aten._native_batch_norm_legit.no_stats, (x, weight, bias, training, momentum, eps))


def is_prim(node: fx.Node) -> bool:
    return isinstance(node.target, torch._ops.OpOverload) and node.target.namespace == "prims"


def is_view(node: fx.Node) -> bool:
    return isinstance(node.target, torch._ops.OpOverload) and node.target.is_view


def may_repeat(node: fx.Node, allowed: frozenset[str]) -> bool:
    """It gives the same bits each time, and does nothing else. Draws are handled apart: a replayed state makes them repeat."""
    if node.meta.get("recompute") in _KEPT or is_seed(node):
        return False
    if name_of(node) in allowed:
        return True
    target = node.target
    if isinstance(target, torch._ops.OpOverload):
        if mutates(node) or any(tag in target.tags for tag in _NEVER_AGAIN):
            return False
        return target.namespace in _PURE_NAMESPACES
    return getattr(target, "__module__", None) in ("_operator", "math") or target is operator.getitem
