"""What PyTorch knows of the ranks of a training, and of its own ways to train on several."""

from __future__ import annotations

import torch


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
