"""Tells the properties of an op of a joint graph: whether it may run again, draws random numbers, or has other effects."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import Any

import torch
from torch import fx

from ...errors import BadInput
from .. import hooks
from . import eager_ops
from .give import GIVE

_NEVER_AGAIN = (torch.Tag.nondeterministic_bitwise, torch.Tag.data_dependent_output, torch.Tag.maybe_aliasing_or_mutating)
_PURE_NAMESPACES = ("aten", "prims", eager_ops.NAMESPACE)
_COMMUNICATION = ("_c10d_functional", "c10d", "_c10d_functional_autograd")
_KEPT = (hooks.CheckpointPolicy.MUST_SAVE, hooks.CheckpointPolicy.MUST_CPU_OFFLOAD)
READS_OLD = "isthmus_reads_old"
"""A key of a node's meta: the node reads a value that the forward overwrites later, so that it cannot run again."""
# Ops of inductor's own passes that draw seeds. The random numbers are a pure function of the seeds.
_SEEDS = ("inductor_seeds", "inductor_seed")

_COPIES = (torch.ops.aten.copy_.default, GIVE)
_GIVES_MEMORY = (torch.ops.aten.shallow_copy_data_.default, torch.ops.aten.set_.source_Tensor)

Target = Any

def allowed_targets(targets: Iterable[Target]) -> frozenset[str]:
    """Returns the names of the ops in `allow_recompute`, which are given as ops or as "namespace::name"; else raises BadInput."""
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
    """Returns the op's name as users know it, such as "aten::mm"."""
    schema = getattr(node.target, "_schema", None)
    if schema is not None:
        return str(schema.name)
    name = getattr(node.target, "name", None)
    return str(name()) if callable(name) else getattr(node.target, "__name__", str(node.target))


def changes_input(node: fx.Node) -> bool:
    """Returns True if the op gives its first operand, which is an input of the graph, the contents of its second one."""
    return node.target in _COPIES or gives_memory(node)


def gives_memory(node: fx.Node) -> bool:
    """Returns True if the op gives an input the memory of another tensor, as `p.data = t` does, and copies no contents."""
    return node.target in _GIVES_MEMORY


def read_by(node: fx.Node) -> list[fx.Node]:
    """Returns the nodes whose contents the op reads. What changes an input reads the source alone."""
    return [a for a in node.args[1:2] if isinstance(a, fx.Node)] if changes_input(node) else node.all_input_nodes


def replace_read(node: fx.Node, old: fx.Node, new: fx.Node) -> None:
    """Makes the op read `new` where it reads the contents of `old`."""
    if changes_input(node):
        node.update_arg(1, new)
    else:
        node.replace_input_with(old, new)


def mutates(node: fx.Node) -> bool:
    return isinstance(node.target, torch._ops.OpOverload) and node.target._schema.is_mutable


def is_seed(node: fx.Node) -> bool:
    return isinstance(node.target, torch._ops.OpOverload) and node.target._opname in _SEEDS


def draws(node: fx.Node) -> bool:
    """Returns True if the op draws from a random generator, which changes the generator's state."""
    return is_seed(node) or hooks.is_rng_op(node) and not _drops_nothing(node)


def _drops_nothing(node: fx.Node) -> bool:
    """Returns True for attention without dropout."""
    schema = getattr(node.target, "_schema", None)
    for k, argument in enumerate(() if schema is None else schema.arguments):
        if argument.name == "dropout_p":
            return (node.args[k] if k < len(node.args) else node.kwargs.get("dropout_p", argument.default_value)) == 0.0
    return False


def is_impure(node: fx.Node) -> bool:
    """Returns True if PyTorch must not leave out or merge the op."""
    return bool(node.is_impure()) and not _drops_nothing(node)


def communicates(node: fx.Node) -> bool:
    return isinstance(node.target, torch._ops.OpOverload) and node.target.namespace in _COMMUNICATION


def waits(node: fx.Node) -> bool:
    """Returns True if the op waits for a collective. Its result is its operand, although neither the schema nor the storage shows that."""
    return communicates(node) and node.target._opname == "wait_tensor"  # type: ignore[union-attr]


def acts(node: fx.Node) -> bool:
    """Returns True if the op has an effect besides its result, or a different result in each run."""
    return mutates(node) or draws(node) or communicates(node) or is_impure(node)


def must_be_in_backward(node: fx.Node) -> bool:
    tag = node.meta.get("partitioner_tag")
    return tag == "must_be_in_backward" or (tag == "is_backward" and acts(node))


def is_batch_norm_in_training(node: fx.Node) -> bool:
    """Returns True if a batch norm normalizes by the batch. It also updates the running averages, which its result does not depend on."""
    return node.target is torch.ops.aten._native_batch_norm_legit_functional.default and node.args[5] is True


def without_averages(graph: fx.Graph, args: tuple[Any, ...]) -> fx.Node:
    """Adds the same batch norm without its running averages, which its first run has changed. It has the first three results."""
    x, weight, bias, _, _, training, momentum, eps = args
    return graph.call_function(torch.ops.aten._native_batch_norm_legit.no_stats, (x, weight, bias, training, momentum, eps))


def is_prim(node: fx.Node) -> bool:
    return isinstance(node.target, torch._ops.OpOverload) and node.target.namespace == "prims"


def is_view(node: fx.Node) -> bool:
    return isinstance(node.target, torch._ops.OpOverload) and node.target.is_view


def indices_of(node: fx.Node) -> fx.Node | None:
    """Returns the indices of a sparse tensor that is taken for a view of its values, as `hooks.traced` does; None for other tensors."""
    return node.args[3] if hooks.makes_sparse(node) else None  # type: ignore[return-value]


def why_once(node: fx.Node) -> str:
    """Returns why an op that may run only once may not run again."""
    if node.meta.get(READS_OLD):
        return "it reads a value that the step overwrites later"
    if node.meta.get("recompute") in _KEPT:
        return "a checkpoint policy of the program says so (MUST_SAVE)"
    if acts(node):
        return "it has effects"
    namespace = node.target.namespace if isinstance(node.target, torch._ops.OpOverload) else ""
    return "its result may differ" if namespace in _PURE_NAMESPACES else "it is of a library (allow_recompute says that it gives the same result each time)"


def may_repeat(node: fx.Node, allowed: frozenset[str]) -> bool:
    """Returns True if the op has the same bits in each run and no effect. Random ops qualify: a restored generator state makes them repeat."""
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
