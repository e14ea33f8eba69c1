"""Wraps the private parts of PyTorch that the package uses, and checks that the installed PyTorch has been tested.

Outside of this package only `inductor` imports private modules of PyTorch. Versions that were not tested raise Unsupported, because a
private function that changed its meaning would give wrong gradients, not an error.
"""

from __future__ import annotations

import torch

from ...errors import Unsupported

TESTED = ("2.15",)

if not any(torch.__version__.startswith(version + ".") for version in TESTED):
    raise Unsupported(
        f"isthmus.torch was tested with PyTorch {', '.join(TESTED)} and found {torch.__version__}: "
        f"install PyTorch {TESTED[-1]}, or a later version of isthmus"
    )

from torch._functorch.partitioners import is_rng_op, is_sym_node  # noqa: E402
from torch._functorch.partitioners import min_cut_rematerialization_partition as min_cut  # noqa: E402
from torch._inductor.custom_graph_pass import CustomPartitionerFn  # noqa: E402
from torch._inductor.fx_passes.fusion_regions import is_fusible_node as is_fusible  # noqa: E402
from torch._prims.rng_prims import run_and_save_rng_state, run_with_rng_state  # noqa: E402
from torch.multiprocessing.reductions import StorageWeakRef  # noqa: E402
from torch.utils.checkpoint import CheckpointPolicy  # noqa: E402
from torch.utils.checkpoint import _StopRecomputationError as EndOfRecomputation  # noqa: E402
from torch.utils.flop_counter import flop_registry  # noqa: E402

from .allocations import Allocations, allocations_on_cpu, outside_of_tracing, unprofiled  # noqa: E402
from .autograd import graph_of, is_in_backward, is_in_checkpoint, keeps_graph, kept_by, kept_by_graphs, leaf_of, node_of_call, nodes_between  # noqa: E402
from .calls import around_backwards, around_calls, uncompiled  # noqa: E402
from .compilers import Boxed, Watch, aot_eager, compile_with_inductor, lays_out_convolutions, register  # noqa: E402
from .graphs import (
    inputs_of,
    is_held_by_others,
    keep_apart,
    keep_in_memory,
    makes_sparse,
    outputs_of,
    simplified,
    split,
    state_like,
    storage_id,
    tangents,
    traced,
    without_code,
)
from .joining import joined  # noqa: E402
from .loading import is_batch  # noqa: E402
from .optimizers import after_optimizers, has_optimizer_in_backward, is_leaf_of_program, is_traced, live_on_gpu, without_hooks_of_optimizers  # noqa: E402
from .overlaps import overlaps, refuse_overlapping_writes  # noqa: E402
from .pipelines import around_pipelines, running_pipeline  # noqa: E402
from .ranks import buckets_follow, drops_late, is_under_ddp, store_of_ranks  # noqa: E402
from .regions import Region, break_after, compilation, hints_of, is_tried_out, ranges_of, takes_gradients  # noqa: E402
from .symbols import has_backed_sizes, most_of, most_within, note_bounds, sized, taking_sizes, value_of  # noqa: E402
from .timelines import Older, Timeline, TimelineOnGpu, end_profile_if_over, timeline  # noqa: E402
from .tracing import Traced, fake_mode, joint_graph  # noqa: E402

__all__ = [
    "Allocations",
    "CheckpointPolicy",
    "CustomPartitionerFn",
    "EndOfRecomputation",
    "Older",
    "Region",
    "StorageWeakRef",
    "Timeline",
    "TimelineOnGpu",
    "Traced",
    "after_optimizers",
    "allocations_on_cpu",
    "aot_eager",
    "around_backwards",
    "around_calls",
    "around_pipelines",
    "break_after",
    "buckets_follow",
    "compilation",
    "compile_with_inductor",
    "drops_late",
    "end_profile_if_over",
    "fake_mode",
    "flop_registry",
    "graph_of",
    "has_backed_sizes",
    "has_optimizer_in_backward",
    "hints_of",
    "inputs_of",
    "is_batch",
    "is_fusible",
    "is_held_by_others",
    "is_in_backward",
    "is_in_checkpoint",
    "is_leaf_of_program",
    "is_rng_op",
    "is_sym_node",
    "is_traced",
    "is_tried_out",
    "is_under_ddp",
    "joined",
    "joint_graph",
    "keep_apart",
    "keep_in_memory",
    "kept_by",
    "kept_by_graphs",
    "lays_out_convolutions",
    "leaf_of",
    "live_on_gpu",
    "makes_sparse",
    "min_cut",
    "most_of",
    "most_within",
    "node_of_call",
    "nodes_between",
    "note_bounds",
    "outputs_of",
    "outside_of_tracing",
    "overlaps",
    "ranges_of",
    "refuse_overlapping_writes",
    "register",
    "run_and_save_rng_state",
    "run_with_rng_state",
    "running_pipeline",
    "simplified",
    "sized",
    "split",
    "state_like",
    "storage_id",
    "store_of_ranks",
    "takes_gradients",
    "taking_sizes",
    "tangents",
    "timeline",
    "traced",
    "uncompiled",
    "unprofiled",
    "value_of",
    "without_code",
    "without_hooks_of_optimizers",
]
