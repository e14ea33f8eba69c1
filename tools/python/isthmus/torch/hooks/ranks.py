"""What PyTorch knows of the ranks of a training, and of its own ways to train on several."""

from __future__ import annotations

import torch
from torch import fx
from torch.utils import _pytree as pytree


def is_under_ddp() -> bool:
    """Returns True if the graph being compiled is of a model under DistributedDataParallel."""
    from torch.nn.parallel import DistributedDataParallel

    return torch.distributed.is_available() and DistributedDataParallel._get_active_ddp_module() is not None


def buckets_follow() -> bool:
    """Returns True if the graph being compiled is one of the parts into which PyTorch splits a model under DistributedDataParallel."""
    return is_under_ddp() and bool(torch._dynamo.config.optimize_ddp)


def store_of_ranks() -> torch.distributed.Store:
    """Returns the store with which the default process group was set up."""
    return torch.distributed.distributed_c10d._get_default_store()


def drops_late(collective: fx.Node) -> bool:
    """Returns True if a thread of Gloo runs this collective: it drops the operands and results some time after the wait has ended."""
    group = next((a for a in reversed(collective.args) if isinstance(a, str)), None)
    if group is None:
        return False
    backends = torch.distributed.distributed_c10d._resolve_process_group(group)
    operands = (t for a in collective.all_input_nodes for t in pytree.tree_leaves(a.meta.get("val")))
    return any(backends._get_backend(t.device).name() == "gloo" for t in operands if isinstance(t, torch.Tensor))
