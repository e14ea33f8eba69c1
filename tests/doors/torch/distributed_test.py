"""The backend under torch.distributed: two processes that talk by gloo. Gradients are those of the uncompiled run, bit for bit, no collective
runs twice, and ranks that plan differently neither wait for one another for ever nor compute something else."""

import os
import sys

sys.path.append(os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "e2e"))
os.environ["OMP_NUM_THREADS"] = "1"
import command  # noqa: E402

command.with_python_of_torch()

import contextlib  # noqa: E402
import copy  # noqa: E402
import datetime  # noqa: E402
import json  # noqa: E402
import subprocess  # noqa: E402
import tempfile  # noqa: E402
import time  # noqa: E402
import traceback  # noqa: E402
import unittest  # noqa: E402

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
import torch.distributed._functional_collectives as collectives  # noqa: E402
from torch import nn  # noqa: E402
from torch.distributed.fsdp import fully_shard  # noqa: E402
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe  # noqa: E402
from torch.nn.parallel import DistributedDataParallel  # noqa: E402

import isthmus.torch  # noqa: E402
from isthmus.torch import modules  # noqa: E402
from training import refusal, same  # noqa: E402

RANKS = 2
WAIT = datetime.timedelta(seconds=60)  # a rank that waits longer for the other raises
WIDTH = 32


class Block(nn.Module):
    def __init__(self, width=WIDTH):
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Dropout(0.1), nn.Linear(4 * width, width), nn.LayerNorm(width))

    def forward(self, x):
        return x + self.inner(x)


def stack(blocks=4, width=WIDTH):
    torch.manual_seed(0)
    return nn.Sequential(*[Block(width) for _ in range(blocks)])


def batch(rank, width=WIDTH, rows=64):
    torch.manual_seed(10 + rank)
    return torch.randn(rows, width)


def compiled(module, budget="min", **options):
    return torch.compile(module, backend=isthmus.torch.backend, options={"budget": budget, **options})


def step(call, model, x):
    """Loss and gradients of one step, after two others; draws are the same each time this is called."""
    torch.manual_seed(3)
    for _ in range(3):
        model.zero_grad()
        loss = call(x).square().mean()
        loss.backward()
    return [loss.detach(), *(p.grad.full_tensor() if hasattr(p.grad, "full_tensor") else p.grad.clone() for p in model.parameters())]


def compared(want, got):
    """What a case hands back: whether the bits are the same, and what was planned."""
    graphs = isthmus.torch.report().graphs
    return {
        "same": len(want) == len(got) and all(map(same, want, got)),
        "graphs": len(graphs),
        "recomputed": sum(g.recomputed for g in graphs),
        "planned": [g.planned_peak_bytes for g in graphs],
    }


# --- cases: what each rank does


def ddp(rank, optimize):
    model, x = stack(width=160), batch(rank, 160)  # 3 MiB of parameters; buckets have at least one
    want_of = DistributedDataParallel(copy.deepcopy(model), bucket_cap_mb=1)
    want = step(want_of, want_of, x)
    with torch._dynamo.config.patch(optimize_ddp=optimize):
        got_of = DistributedDataParallel(model, bucket_cap_mb=1)
        return compared(want, step(compiled(got_of), got_of, x))


def ddp_in_buckets(rank):
    return ddp(rank, True)


def ddp_in_one_graph(rank):
    return ddp(rank, False)


def fsdp2(rank):
    def sharded(blocks, compile_blocks):
        for block in blocks:
            if compile_blocks:
                block.compile(backend=isthmus.torch.backend, options={"budget": "min"})
            fully_shard(block)
        return fully_shard(blocks)

    model, x = stack(), batch(rank)
    plain, planned = sharded(copy.deepcopy(model), False), sharded(model, True)
    return compared(step(plain, plain, x), step(planned, planned, x))


def pipeline(rank, schedule):
    stages = stack()
    mine = stages[:2] if rank == 0 else stages[2:]

    def run(call, parameters_of):
        stage = PipelineStage(call, rank, RANKS, torch.device("cpu"))
        torch.manual_seed(3)
        losses = []
        for _ in range(2):
            parameters_of.zero_grad()
            pipe = schedule(stage, n_microbatches=4, loss_fn=lambda y, t: (y - t).square().mean())
            x, y = batch(0, rows=1024), batch(1, rows=1024)
            pipe.step(x) if rank == 0 else pipe.step(target=y, losses=losses)
        return [p.grad.clone() for p in parameters_of.parameters()] + [loss.detach() for loss in losses]

    plain = copy.deepcopy(mine)
    want = run(plain, plain)
    return compared(want, run(compiled(mine), mine))


def pipeline_gpipe(rank):
    return pipeline(rank, ScheduleGPipe)


def pipeline_1f1b(rank):
    return pipeline(rank, Schedule1F1B)


class Gathers(nn.Module):
    """Each layer multiplies with a weight of which every rank has a part, and divides by a norm over all ranks."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.parts = nn.ParameterList([torch.randn(WIDTH // RANKS, WIDTH) / 4 for _ in range(4)])

    def forward(self, x):
        group = dist.group.WORLD
        for part in self.parts:
            weight = collectives.all_gather_single_autograd(part, 0, group)
            y = torch.tanh(x @ weight).sin()
            total = collectives.all_reduce(y.detach().square().sum(0), "sum", group)
            x = y / (1 + total).sqrt() + x
        return x


def communication(call, model, x):
    """The collectives of one step, in the order in which they ran."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        model.zero_grad()
        call(x).square().mean().backward()
    events = sorted(profile.events(), key=lambda e: e.time_range.start)
    return [e.name for e in events if e.name.startswith("_c10d_functional::") and "wait" not in e.name]


def functional_collectives(rank, budget="min"):
    model, x = Gathers(), batch(rank)
    want, once = step(model, model, x), communication(model, model, x)
    call = compiled(model, budget)
    found = compared(want, step(call, model, x))
    return {**found, "collectives": communication(call, model, x), "of eager": once}


def functional_collectives_at_other_budgets(rank):
    return functional_collectives(rank, ["min", "100%"][rank])


@contextlib.contextmanager
def schedules():
    """Those that become modules meanwhile."""
    found, split = [], modules.split
    modules.split = lambda gm, joint, schedule, *others, **named: (found.append(list(schedule)), split(gm, joint, schedule, *others, **named))[1]
    try:
        yield found
    finally:
        modules.split = split


def with_costs_of_rank(rank, **options):
    """The cost model of rank 1 finds products cheap and all else dear, so it comes to another plan."""
    model, x = stack(), batch(rank)
    want = step(model, model, x)
    costs = isthmus.torch.partitioner.Costs
    of = costs.of
    if rank == 1:
        costs.of = lambda self, node: 1.0 if "mm" in str(node.target) else 1e6
    try:
        with schedules() as found:
            got = step(compiled(model, "70%", **options), model, x)
    finally:
        costs.of = of
    return {**compared(want, got), "schedules": found}


def other_costs_in_sync(rank):
    return with_costs_of_rank(rank, sync=True)


def other_costs(rank):
    return with_costs_of_rank(rank)


def refused(rank, width, budget):
    model, x = stack(width=width), batch(rank, width)
    try:
        step(compiled(model, budget, sync=True), model, x)
    except Exception as e:
        error = refusal(e)
        return {"error": type(error).__name__, "text": str(error or e)}
    return {"error": None}


def other_graphs_in_sync(rank):
    return refused(rank, [WIDTH, 2 * WIDTH][rank], "60%")


def other_budgets_in_sync(rank):
    return refused(rank, WIDTH, ["60%", "70%"][rank])


def impossible_in_sync(rank):
    return refused(rank, WIDTH, "1KiB")


def one_rank_fails_in_sync(rank):
    """Rank 1 cannot even state its problem; the other must not wait for it until the group's time is up."""
    joint = isthmus.torch.partitioner.extract

    def extract(*args, **named):
        raise isthmus.Unsupported("made up for rank 1")

    if rank == 1:
        isthmus.torch.partitioner.extract = extract
    start = time.monotonic()
    try:
        return {**refused(rank, WIDTH, "60%"), "seconds": time.monotonic() - start}
    finally:
        isthmus.torch.partitioner.extract = joint


def with_outside(call, model, budget, x):
    """What three steps give, the measured peak of a further one, and the plan of the whole step."""
    found = step(call, model, x)

    def once():
        call(x).square().mean().backward()

    model.zero_grad()
    return found, isthmus.torch.measured_peak(once), isthmus.torch.report()


def buckets_in_one_budget(rank, **options):
    """DDP cuts the model into one graph a bucket."""
    model, x = stack(width=160), batch(rank, 160, rows=1024)
    want_of = DistributedDataParallel(copy.deepcopy(model), bucket_cap_mb=1)
    want = step(want_of, want_of, x)
    got_of = DistributedDataParallel(model, bucket_cap_mb=1)
    got, peak, report = with_outside(compiled(got_of, "60%", strict=False, **options), got_of, "60%", x)
    (plan,) = report.steps
    return {
        **compared(want, got),
        "parts": len(plan.parts),
        "peak": peak,
        "planned step": plan.planned_peak_bytes,
        "budget": plan.budget_bytes,
        "each": [(p.recomputed, p.saved_bytes) for p in plan.parts],
    }


def buckets_in_sync(rank):
    """Each has the budget to itself: ranks would have to agree when a step is over."""
    costs = isthmus.torch.partitioner.Costs
    of = costs.of
    if rank == 1:
        costs.of = lambda self, node: 1.0 if "mm" in str(node.target) else 1e6
    try:
        model, x = stack(width=160), batch(rank, 160, rows=1024)
        want_of = DistributedDataParallel(copy.deepcopy(model), bucket_cap_mb=1)
        want = step(want_of, want_of, x)
        got_of = DistributedDataParallel(model, bucket_cap_mb=1)
        call = compiled(got_of, "60%", strict=False, sync=True)
        for _ in range(3):
            got_of.zero_grad()
            got = step(call, got_of, x)
        report = isthmus.torch.report()
    finally:
        costs.of = of
    return {
        **compared(want, got),
        "steps": len(report.steps),
        "each": [(g.recomputed, g.saved_bytes) for g in report.graphs],
    }


# --- cases under inductor: its kernels may round otherwise in another company

UNCACHED = {"kernels": "inductor", "inductor": {"fx_graph_cache": False}}  # code that comes from the cache is not counted


def close(want, got):
    return len(want) == len(got) and all(bool((a - b).norm() <= 1e-4 * a.norm() + 1e-7) for a, b in zip(want, got))


def least(made, x, beside):
    """Of `made(how)`, which compiles and gives a call and its model: gradients are inductor's own, the peak of the whole step is planned.
    beside: bytes that are allocated between the graphs, and are in no plan."""
    want = step(*made({"backend": "inductor"}), x)
    torch.compiler.reset()
    call, model = made({"backend": isthmus.torch.backend, "options": {"budget": "min", **UNCACHED}})
    got, peak, report = with_outside(call, model, "min", x)
    (plan,) = report.steps
    return {
        **compared(want, got),
        "same": close(want, got),
        "peak": peak,
        "planned step": plan.planned_peak_bytes,
        "parts": len(plan.parts),
        "beside": beside,
    }


def ddp_under_inductor(rank):
    model, x = stack(2, width=160), batch(rank, 160, rows=2048)

    def made(how):
        wrapped = DistributedDataParallel(copy.deepcopy(model), bucket_cap_mb=1)
        return torch.compile(wrapped, **how), wrapped

    return least(made, x, beside=1 << 20)  # a bucket


def fsdp2_under_inductor(rank):
    model, x = stack(2, width=64), batch(rank, 64, rows=512)

    def made(how):
        blocks = copy.deepcopy(model)
        for block in blocks:
            block.compile(**how)
            fully_shard(block)
        whole = fully_shard(blocks)
        return whole, whole

    gathered = sum(p.numel() * p.element_size() for p in model.parameters())
    return least(made, x, beside=2 * gathered)  # and what they are gathered into first


CASES = [
    ddp_in_buckets,
    ddp_in_one_graph,
    fsdp2,
    pipeline_gpipe,
    pipeline_1f1b,
    functional_collectives,
    functional_collectives_at_other_budgets,
    other_costs,
    other_costs_in_sync,
    other_graphs_in_sync,
    other_budgets_in_sync,
    impossible_in_sync,
    one_rank_fails_in_sync,
    buckets_in_one_budget,
    buckets_in_sync,
]
CASES_UNDER_INDUCTOR = [
    ddp_under_inductor,
    fsdp2_under_inductor,
]


def work(rank, folder, cases):
    """One rank: runs the cases, and writes what each has found."""
    torch.set_num_threads(1)
    for case in cases:
        # Each case has a group of its own, so that one that fails leaves the others theirs.
        dist.init_process_group("gloo", init_method=f"file://{folder}/{case.__name__}", rank=rank, world_size=RANKS, timeout=WAIT)
        torch.compiler.reset()
        isthmus.torch.reset()
        try:
            found = case(rank)
        except Exception:
            found = {"raised": traceback.format_exc()[-3000:]}
        with open(os.path.join(folder, f"{case.__name__}.{rank}.json"), "w") as f:
            json.dump(found, f)
        dist.destroy_process_group()


class Cases(unittest.TestCase):
    """Two processes run the cases; tests look at what each has found."""

    cases, most_seconds = "CASES", 280

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        command_line = [sys.executable, os.path.abspath(__file__), cls.folder.name, cls.cases]
        ranks = [subprocess.Popen([*command_line, str(rank)]) for rank in range(RANKS)]
        try:
            for process in ranks:
                process.wait(timeout=cls.most_seconds)
        finally:
            for process in ranks:
                process.kill()
                process.wait()

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def found(self, case):
        """By both ranks."""
        results = []
        for rank in range(RANKS):
            path = os.path.join(self.folder.name, f"{case.__name__}.{rank}.json")
            self.assertTrue(os.path.exists(path), f"rank {rank} did not come to the end of {case.__name__}")
            with open(path) as f:
                results.append(json.load(f))
            self.assertNotIn("raised", results[-1], f"rank {rank}: {results[-1].get('raised')}")
        return results

    def holds(self, case, least_graphs=1):
        results = self.found(case)
        for rank, result in enumerate(results):
            with self.subTest(case=case.__name__, rank=rank):
                self.assertTrue(result["same"], "the bits are other ones than the uncompiled run's")
                self.assertGreaterEqual(result["graphs"], least_graphs)
        self.assertGreater(sum(r["recomputed"] for r in results), 0, "nothing was recomputed, so nothing was tried")
        return results


class Distributed(Cases):
    def test_ddp(self):
        self.holds(ddp_in_buckets, least_graphs=2)
        self.holds(ddp_in_one_graph)

    def test_fsdp2(self):
        self.holds(fsdp2)

    def test_pipelining(self):
        self.holds(pipeline_gpipe)
        self.holds(pipeline_1f1b)

    def test_collectives_run_once_and_in_their_order(self):
        for result in self.holds(functional_collectives):
            self.assertEqual(sorted(result["collectives"]), sorted(result["of eager"]))
            self.assertEqual(len(result["collectives"]), 12)

    def test_ranks_with_other_budgets_keep_the_order(self):
        results = self.holds(functional_collectives_at_other_budgets)
        self.assertEqual(results[0]["collectives"], results[1]["collectives"])
        self.assertNotEqual(results[0]["planned"], results[1]["planned"])

    def test_in_sync_all_ranks_have_the_plan_of_rank_0(self):
        apart = self.holds(other_costs)
        self.assertNotEqual(apart[0]["schedules"], apart[1]["schedules"], "other costs were to make other plans")
        together = self.holds(other_costs_in_sync)
        self.assertEqual(together[0]["schedules"], together[1]["schedules"])
        self.assertEqual(together[0]["schedules"], apart[0]["schedules"])

    def test_in_sync_what_differs_is_an_error_on_all_ranks(self):
        for case, what in ((other_graphs_in_sync, "the graph of rank 1"), (other_budgets_in_sync, "the budget of rank 1")):
            for result in self.found(case):
                self.assertEqual(result["error"], "BadInput", result)
                self.assertIn(what, result["text"])

    def test_in_sync_a_rank_that_fails_is_not_waited_for(self):
        failed, other = self.found(one_rank_fails_in_sync)[::-1]
        self.assertEqual(failed["error"], "Unsupported", failed)
        self.assertEqual(other["error"], "BadInput", other)
        self.assertIn("rank 1", other["text"])
        self.assertIn("made up for rank 1", other["text"])
        self.assertLess(other["seconds"], WAIT.total_seconds() / 2)

    def test_buckets_share_one_budget(self):
        for result in self.holds(buckets_in_one_budget, least_graphs=2):
            self.assertGreater(result["parts"], 1)
            self.assertLessEqual(result["peak"], result["planned step"])
            self.assertGreaterEqual(result["peak"], 0.95 * result["planned step"])
            self.assertLessEqual(result["planned step"], result["budget"])

    def test_in_sync_each_bucket_has_the_plan_of_rank_0(self):
        results = self.holds(buckets_in_sync, least_graphs=2)
        for result in results:
            self.assertEqual(result["steps"], 0)
            self.assertGreater(len(result["each"]), 1)
            self.assertTrue(any(recomputed for recomputed, _ in result["each"]), result)
        self.assertEqual(results[0]["each"], results[1]["each"])

    def test_in_sync_an_impossible_budget_is_an_error_on_all_ranks(self):
        for result in self.found(impossible_in_sync):
            self.assertEqual(result["error"], "CannotBeMet", result)
            self.assertIn("the least peak that was found", result["text"])


class UnderInductor(Cases):
    cases, most_seconds = "CASES_UNDER_INDUCTOR", 500

    def test_ddp_and_fsdp2_keep_their_plan(self):
        for case in (ddp_under_inductor, fsdp2_under_inductor):
            for result in self.holds(case):
                with self.subTest(case=case.__name__):
                    self.assertGreater(result["parts"], 1)
                    self.assertLessEqual(result["peak"], result["planned step"] + result["beside"])
                    self.assertGreaterEqual(result["peak"], 0.92 * result["planned step"])


if __name__ == "__main__":
    if len(sys.argv) == 4:
        folder, cases, rank = sys.argv[1:]
        work(int(rank), folder, globals()[cases])
    else:
        command.main()
