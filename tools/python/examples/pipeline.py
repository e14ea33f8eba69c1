"""Trains a small transformer in a pipeline of two processes, plain and within a budget, and prints what each process took.

Usage: torchrun --nproc-per-node=2 pipeline.py [--schedule=gpipe|1f1b|interleaved] [--budget=BUDGET] [--microbatches=N] [--steps=N]
"""

import argparse
import time
from collections.abc import Callable

import torch
import torch.distributed as dist
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe, ScheduleInterleaved1F1B

import isthmus.torch

WIDTH, WORDS, LENGTH, BLOCKS, EXAMPLES = 96, 256, 64, 8, 4


class Block(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = torch.nn.LayerNorm(WIDTH), torch.nn.LayerNorm(WIDTH)
        self.qkv, self.out = torch.nn.Linear(WIDTH, 3 * WIDTH), torch.nn.Linear(WIDTH, WIDTH)
        self.mlp = torch.nn.Sequential(torch.nn.Linear(WIDTH, 4 * WIDTH), torch.nn.GELU(), torch.nn.Linear(4 * WIDTH, WIDTH), torch.nn.Dropout(0.1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(self.norm1(x)).unflatten(-1, (3, 4, -1)).permute(2, 0, 3, 1, 4)
        attended = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).flatten(2))
        return x + self.mlp(self.norm2(x))


def stages_of(rank: int, number: int) -> list[torch.nn.Module]:
    """Returns the parts of the model that a rank has, of `number` parts."""
    torch.manual_seed(0)
    embedding, head = torch.nn.Embedding(WORDS, WIDTH), torch.nn.Linear(WIDTH, WORDS)
    blocks = [Block() for _ in range(BLOCKS)]
    size = BLOCKS // number
    parts = [torch.nn.Sequential(*blocks[k * size : (k + 1) * size]) for k in range(number)]
    parts[0].insert(0, embedding)
    parts[-1].append(head)
    return list(parts[rank :: dist.get_world_size()])


def loss_of(logits: torch.Tensor, words: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), words.flatten())


def train(options: argparse.Namespace, compiled: Callable[[torch.nn.Module], Callable[..., torch.Tensor]]) -> tuple[list[torch.Tensor], int, float]:
    """Returns the gradients of the last step, the peak of a further one in bytes, and the processor milliseconds of a step."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    kind = {"gpipe": ScheduleGPipe, "1f1b": Schedule1F1B, "interleaved": ScheduleInterleaved1F1B}[options.schedule]
    number = 2 * ranks if kind is ScheduleInterleaved1F1B else ranks
    modules = stages_of(rank, number)
    stages = [PipelineStage(compiled(m), rank + k * ranks, number, torch.device("cpu")) for k, m in enumerate(modules)]
    schedule = kind(stages if number > ranks else stages[0], n_microbatches=options.microbatches, loss_fn=loss_of)
    torch.manual_seed(1)
    words = torch.randint(0, WORDS, (EXAMPLES * options.microbatches, LENGTH + 1))
    torch.manual_seed(2 + rank)

    def step() -> None:
        if rank == 0:
            schedule.step(words[:, :-1])
        else:
            schedule.step(target=words[:, 1:].contiguous(), return_outputs=False)

    def clear() -> None:
        for module in modules:
            module.zero_grad()
        dist.barrier()

    times = []
    for _ in range(options.steps):
        clear()
        begin = time.process_time()
        step()
        times.append(1e3 * (time.process_time() - begin))
    gradients = [p.grad.clone() for m in modules for p in m.parameters() if p.grad is not None]
    clear()
    return gradients, isthmus.torch.measured_peak(step), min(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--schedule", choices=["gpipe", "1f1b", "interleaved"], default="1f1b")
    parser.add_argument("--budget", default="60%", help="of each process, as 100MiB, 60%% or min; default %(default)s")
    parser.add_argument("--microbatches", type=int, default=8)
    parser.add_argument("--steps", type=int, default=8)
    options = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    plain, peak, ms = train(options, lambda module: module)
    small, small_peak, small_ms = train(options, lambda m: torch.compile(m, backend="isthmus", options={"budget": options.budget}))
    same = all(map(torch.equal, plain, small))
    report = isthmus.torch.report().steps[-1]
    asked = report.budget_bytes or report.planned_peak_bytes
    print(
        f"rank {dist.get_rank()}: {peak / 2**20:.2f} MiB plain, budget {asked / 2**20:.2f}, planned {report.planned_peak_bytes / 2**20:.2f}, "
        f"measured {small_peak / 2**20:.2f}; {ms:.0f} ms of the processor, then {small_ms:.0f}; micro-batches in flight: {report.most_waiting}; "
        f"{'the same bits' if same else 'not the same bits'}",
        flush=True,
    )
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
