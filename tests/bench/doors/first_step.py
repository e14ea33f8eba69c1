"""Times the first step of a training program, with all that is compiled in it, beside that of PyTorch's own backend of the same kernels.

Each first step is one of a new process with empty caches. The ways take turns. A row has, for each way, the median of processor and wall-clock seconds,
the ratio to the stock backend (the median of the ratios of the rounds), and for Isthmus what its report says of planning.

Usage: first_step.py [--models=NAME,...] [--kernels=aot_eager,inductor] [--budgets=60%,...] [--rounds=N]
It needs the environment of against_pytorch.py, whose models it takes.
"""

import argparse
import gc
import json
import os
import statistics
import tempfile
import time
import traceback

import torch
from against_pytorch import MODELS, SEVERAL_GRAPHS

import isthmus.torch


def first_step(name, kernels, budget):
    """Runs one first step in this process and returns its figures. budget: None for PyTorch's own backend."""
    torch.manual_seed(0)
    model, loss_of = MODELS[name]()
    how = {"backend": kernels} if budget is None else {"backend": "isthmus", "options": {"budget": budget, "kernels": kernels}}
    function = torch.compile(lambda: loss_of(model), fullgraph=name not in SEVERAL_GRAPHS, **how)
    gc.collect()  # the ways begin alike
    wall, used = time.perf_counter(), time.process_time()
    function().backward()
    used, wall = time.process_time() - used, time.perf_counter() - wall
    graphs = isthmus.torch.report().graphs
    return {"used": used, "wall": wall, "planned": sum(g.plan_seconds for g in graphs), "ops": sum(g.ops for g in graphs)}


def in_new_process(*arguments):
    """Returns the figures of a first step in a child of this process, which has imported PyTorch and has compiled nothing."""
    reads, writes = os.pipe()
    child = os.fork()
    if child == 0:
        with tempfile.TemporaryDirectory() as cache:
            os.environ["TORCHINDUCTOR_CACHE_DIR"] = cache
            try:
                os.write(writes, json.dumps(first_step(*arguments)).encode())
            except BaseException:
                traceback.print_exc()
        os._exit(0)
    os.close(writes)
    with open(reads) as pipe:
        told = pipe.read()
    os.waitpid(child, 0)
    if not told:
        raise RuntimeError(f"the first step of {arguments} failed")
    return json.loads(told)


def compare(name, kernels, budgets, rounds):
    ways = [None, *budgets]
    found = {way: [] for way in ways}
    for _ in range(rounds):
        for way in ways:
            found[way].append(in_new_process(name, kernels, way))

    def median(way, what):
        return statistics.median(each[what] for each in found[way])

    def ratio(way, what):
        ratios = [a[what] / b[what] for a, b in zip(found[way], found[None])]
        return f"{statistics.median(ratios):.3f} ({min(ratios):.2f} to {max(ratios):.2f})"

    print(f"{name}, {kernels}: {median(None, 'used'):.2f} s, {median(None, 'wall'):.2f} s by the clock", flush=True)
    for way in budgets:
        planning = f"{median(way, 'planned'):.2f} s for {median(way, 'ops'):.0f} ops"
        print(f"  isthmus {way:6} {ratio(way, 'used')}, by the clock {ratio(way, 'wall')}; planned in {planning}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", default="nanogpt,lora_llama,diffusers_unet,efficientnet,swin_unetr")
    parser.add_argument("--kernels", default="aot_eager,inductor")
    parser.add_argument("--budgets", default="60%")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    torch.set_num_threads(1)
    for kernels in options.kernels.split(","):
        for name in options.models.split(","):
            compare(name, kernels, options.budgets.split(","), options.rounds)


if __name__ == "__main__":
    main()
