"""Prepares a joint graph for `extraction`, which makes a problem of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import fx

from ...errors import Unsupported
from .. import hooks
from ..ranks import gathers
from . import given, rules, subgraphs
from .sizes import storage_of, tensors_in
from .walks import needed_for


def prepare(gm: fx.GraphModule, num_fwd_outputs: int, *, fuses: bool) -> fx.GraphModule:
    """Simplifies a joint graph. If the forward overwrites an input that the backward reads, the backward reads a copy of the old value.

    fuses: ops are fused into kernels, so that much recomputation in the backward costs nothing. PyTorch's own partitioner knows which;
    planning begins with the joint graph of its two modules.
    """
    gm = hooks.simplified(gm, num_fwd_outputs, given.storages_given(gm.graph))
    graph = gm.graph
    if not fuses:  # inductor has code of its own for what gives memory
        given.copy(graph, hooks.outputs_of(gm, num_fwd_outputs)[0])
        _take_for_views(graph)
    hooks.note_bounds(graph)
    _check_storages(graph)
    subgraphs.note_storages(graph)
    hooks.refuse_overlapping_writes(graph)
    changed = dict.fromkeys(n.args[0] for n in graph.nodes if rules.changes_input(n) and not rules.must_be_in_backward(n))
    sources = [n for n in changed if isinstance(n, fx.Node) and n.op == "placeholder"]
    forward, backward = hooks.outputs_of(gm, num_fwd_outputs)
    _leave_to_backward(graph, forward, backward)
    (gathers.leave_to_pytorch if fuses else gathers.split)(graph, forward, after_tangents(graph))
    _read_copies_in_backward(graph, sources, after_tangents(graph))
    graph.lint()
    if not fuses:
        return gm
    gm, after = hooks.joined(gm, *hooks.min_cut(gm, None, num_fwd_outputs=num_fwd_outputs), num_fwd_outputs, stays=rules.communicates)
    names = {source.name for source in sources}
    # PyTorch's own partitioner has also left to the backward what the forward does not need.
    _read_copies_in_backward(gm.graph, [n for n in gm.graph.nodes if n.op == "placeholder" and n.name in names], after)
    return gm


def _leave_to_backward(graph: fx.Graph, forward: Sequence[Any], backward: Sequence[Any]) -> None:
    """Tags the gradients that depend on no tangent, such as constant zeros, and that the forward does not need."""
    after = after_tangents(graph)
    acts = [n for n in graph.nodes if n.op == "call_function" and n not in after and rules.acts(n)]
    needed = needed_for([*forward, *acts])
    for node in [*backward, *filter(None, map(rules.indices_of, graph.nodes))]:
        if isinstance(node, fx.Node) and node.op == "call_function" and node not in needed:
            node.meta["partitioner_tag"] = "must_be_in_backward"


def after_tangents(graph: fx.Graph) -> set[fx.Node]:
    """Returns the nodes that cannot run before the backward begins."""
    after = set(hooks.tangents(graph))
    for node in graph.nodes:
        if any(a in after for a in node.all_input_nodes) or rules.must_be_in_backward(node):
            after.add(node)
    after -= {n for n in after if n.op == "output"}
    return after


def _aliases(graph: fx.Graph, sources: Sequence[fx.Node]) -> dict[Any, dict[fx.Node, None]]:
    """Returns each of these inputs and its views, by their storage."""
    found: dict[Any, dict[fx.Node, None]] = {storage_of(source.meta.get("val")): {source: None} for source in sources}
    for node in graph.nodes if found else ():
        key = storage_of(node.meta.get("val"))
        if node.op == "call_function" and key in found and not rules.changes_input(node):
            found[key][node] = None
    return found


def _read_copies_in_backward(graph: fx.Graph, sources: Sequence[fx.Node], after: set[fx.Node]) -> None:
    """Makes the backward read copies of these inputs, which the forward overwrites. after: the nodes that run in the backward."""
    aliases = _aliases(graph, sources)
    for source in sources:
        _read_copy_in_backward(graph, source, aliases[storage_of(source.meta.get("val"))], after)


def _read_copy_in_backward(graph: fx.Graph, source: fx.Node, aliases: dict[fx.Node, None], after: set[fx.Node]) -> None:
    """Makes the backward read a copy, made before all other ops. Forward ops that read the input, except batch norms, run only once."""
    readers = list(dict.fromkeys(user for a in aliases for user in a.users if user not in aliases and a in rules.read_by(user)))
    for reader in readers:
        if reader not in after and not rules.changes_input(reader) and not rules.is_batch_norm_in_training(reader):
            reader.meta["recompute"], reader.meta[rules.READS_OLD] = hooks.CheckpointPolicy.MUST_SAVE, True  # if it ran again, it would read the new value
    readers = [n for n in readers if n in after]
    if not readers:
        return
    first = next(n for n in graph.nodes if n.op != "placeholder")
    with graph.inserting_before(first):
        copy = graph.call_function(torch.ops.aten.clone.default, (source,))
    copy.meta = dict(source.meta)
    copy.meta["val"] = source.meta["val"].clone()
    copy.meta.pop("is_static_input", None)
    copy.meta["recompute"], copy.meta[rules.READS_OLD] = hooks.CheckpointPolicy.MUST_SAVE, True
    copies = {source: copy}

    def of_copy(alias: fx.Node) -> fx.Node:
        if alias not in copies:
            with graph.inserting_after(alias):
                again = graph.node_copy(alias, lambda a: of_copy(a) if a in aliases else a)
            again.meta = {**alias.meta, "val": hooks.traced(again)}
            copies[alias] = again
        return copies[alias]

    for reader in readers:
        for a in [a for a in rules.read_by(reader) if a in aliases]:
            rules.replace_read(reader, a, of_copy(a))


_OF_EMBEDDING = ", or give embeddings sparse=False"


def _take_for_views(graph: fx.Graph) -> None:
    """Takes sparse results of the graph, such as an embedding's gradient, for views of their values: making one of its indices and values copies
    neither."""
    for node in graph.nodes:
        if hooks.makes_sparse(node) and all(user.op == "output" for user in node.users):
            node.meta["val"] = hooks.traced(node)


def _check_storages(graph: fx.Graph) -> None:
    """Raises Unsupported for a tensor without a storage: memory is counted in storages, and views are recognized by them."""
    for node in graph.nodes:
        for t in tensors_in(node.meta.get("val")):
            try:
                hooks.storage_id(t)
            except NotImplementedError:
                who = f"'{rules.name_of(node)}' makes" if node.op == "call_function" else f"the input '{node.name}' is"
                raise Unsupported(
                    f"{who} a tensor of layout {str(t.layout).removeprefix('torch.')}, which has no storage that could be planned: "
                    f"keep it out of what is compiled, with torch.compiler.disable for one{_OF_EMBEDDING if t.layout is torch.sparse_coo else ''}"
                ) from None
