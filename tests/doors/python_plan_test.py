"""Tests problems and plans in Python: results, messages for wrong input, progress, and the interruption of a search."""

import ast
import contextlib
import copy
import ctypes
import gc
import gzip
import json
import multiprocessing
import os
import pickle
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import weakref

import isthmus
import joint_graphs
from isthmus import _library
from isthmus.planning import live_bytes, search

PACKAGE = os.path.dirname(isthmus.__file__)


def chain(length, **options):
    """Forward ops of 1000 bytes, and backward ops that read them in reverse."""
    problem = isthmus.Problem("chain", alignment=1, **options)
    forward = [problem.add("x", bytes=1000, pinned=True)]
    for i in range(length):
        forward.append(problem.add(f"f{i}", [forward[-1]], cost=2.0, bytes=1000))
    gradient = forward[-1]
    for i in reversed(range(length)):
        gradient = problem.add(f"b{i}", [gradient, forward[i]], cost=2.0, bytes=1000, phase="backward")
    problem.outputs = [gradient]
    return problem


def judged(problem, schedule):
    """Peak and cost of a schedule, by the rules as they are written down (no donations)."""

    def rounded(size):
        return -(-size // problem.alignment) * problem.alignment

    # Instances are numbers; None is what is pinned.
    live, made, last_read = {}, [], []
    newest = {(number, 0): None for number, op in enumerate(problem) if op.pinned}
    reads_of = []
    for step, number in enumerate(schedule):
        op = problem[number]
        reads = [newest[read] for read in op.reads if newest[read] is not None]
        if op.view_of is not None:
            newest[number, 0] = newest[op.reads[op.view_of]]
            reads_of.append((reads, []))
            continue
        own = []
        for output, size in enumerate(op.bytes):
            newest[number, output] = len(made)
            own.append(len(made))
            made.append(rounded(size))
            last_read.append(step)
        reads_of.append((reads, own))
    for step, (reads, _) in enumerate(reads_of):
        for instance in reads:
            last_read[instance] = step
    for read in problem.outputs:
        if newest[read] is not None:
            last_read[newest[read]] = len(schedule)
    peak = 0
    for step, (reads, own) in enumerate(reads_of):
        live.update({instance: made[instance] for instance in own})
        peak = max(peak, sum(live.values()) + rounded(problem[schedule[step]].workspace))
        for instance in [i for i in live if last_read[i] <= step]:
            del live[instance]
    return peak, sum(problem[number].cost for number in schedule)


def random_problem(rng):
    problem = isthmus.Problem("random", order=rng.choice(["free", "fixed"]), alignment=rng.choice([1, 64]))
    problem.add("x", bytes=rng.randint(1, 500), pinned=True)
    for i in range(rng.randint(6, 20)):
        reads = [(op, rng.randrange(len(problem[op].bytes)))
                 for op in {rng.randrange(len(problem)) for _ in range(rng.randint(0, 2))} | {len(problem) - 1}]
        if rng.random() < 0.2:
            problem.add(f"view{i}", reads, rng.choice([0, 1]), view_of=rng.randrange(len(reads)))
        else:
            sizes = [rng.randint(0, 500) for _ in range(rng.choice([1, 1, 1, 2, 3]))]
            problem.add(f"op{i}", reads, rng.randint(1, 9), sizes, recomputable=rng.random() < 0.9,
                        workspace=rng.choice([0, 0, rng.randint(1, 300)]))
    last = len(problem) - 1
    problem.outputs = [(last, rng.randrange(len(problem[last].bytes))), rng.randrange(1, last + 1)]
    return problem


def planned(handle, seed):
    try:
        plan = search(handle, "70%", 0.002, seed, None)
    except isthmus.CannotBeMet as error:
        plan = error.plan
    return plan.schedule, plan.figures


class Plans(unittest.TestCase):
    def test_a_budget_is_kept_by_recomputing(self):
        problem = chain(12)
        plan = isthmus.plan(problem, "50%", effort=0.05)
        self.assertEqual(plan.figures.baseline_peak_bytes, 13000)
        self.assertLessEqual(plan.figures.peak_bytes, 6500)
        self.assertGreater(plan.figures.recomputed, 0)
        self.assertEqual(plan.figures.baseline_cost, 48)
        self.assertAlmostEqual(plan.figures.recompute_overhead, plan.figures.cost / 48 - 1)
        self.assertEqual(judged(problem, plan.schedule), (plan.figures.peak_bytes, plan.figures.cost))
        self.assertIsNone(plan.figures.smallest_peak_bytes)
        self.assertTrue(all(type(step) is int for step in plan.schedule))
        with self.assertRaises(AttributeError):
            plan.figures.cost = 0

    def test_budgets_are_read_as_on_the_command_line(self):
        problem = chain(12)
        baseline = isthmus.plan(problem, "100%", effort=0.01)
        self.assertEqual(baseline.figures.peak_bytes, 13000)
        for budget, most in ((7000, 7000), ("7000", 7000), ("7000B", 7000), ("7kB", 7000), ("7 KiB", 7168), ("60.5%", 7865),
                             ("0.007MB", 7000), ("1GiB", 13000), (0.605, 7865), (1.0, 13000)):
            with self.subTest(budget):
                plan = isthmus.plan(problem, budget, effort=0.05)
                self.assertLessEqual(plan.figures.peak_bytes, most)
                self.assertGreater(plan.figures.peak_bytes, most - 1500)
        least = isthmus.plan(problem, "min", effort=0.05)
        self.assertLess(least.figures.peak_bytes, 5000)
        self.assertLessEqual(least.figures.recompute_overhead, 1)
        least_at_all = isthmus.plan(problem, least.figures.smallest_peak_bytes, effort=0.05)
        self.assertEqual(least_at_all.figures.peak_bytes, least.figures.smallest_peak_bytes)
        self.assertGreater(least_at_all.figures.recompute_overhead, 1)
        for budget in ("", "7x", "7.5", "-1", "1.2.3MB", "10**3", "%", ".", "99999999999TiB", "min ", "1e3", "٣", -1, 2**62):
            with self.subTest(budget), self.assertRaisesRegex(isthmus.BadInput, "a budget is a size"):
                isthmus.plan(problem, budget)
        for budget in (0.0, -0.5, 1.5, 2e9, float("inf"), float("nan")):
            with self.subTest(budget), self.assertRaisesRegex(isthmus.BadInput, "a budget that is a float is a share"):
                isthmus.plan(problem, budget)
        for budget in (None, True, b"50%", [1]):
            with self.subTest(budget), self.assertRaisesRegex(TypeError, "a budget is a number of bytes, a share"):
                isthmus.plan(problem, budget)

    def test_a_budget_that_cannot_be_met_gives_the_least_that_was_found(self):
        for budget in (10, "0%", 0):
            with self.assertRaisesRegex(isthmus.CannotBeMet, r"cannot be met: the least peak that was found is") as caught:
                isthmus.plan(chain(12), budget, effort=0.05)
            least = caught.exception.plan
            self.assertGreater(least.figures.peak_bytes, 10)
            self.assertEqual(least.figures.peak_bytes, least.figures.smallest_peak_bytes)
            again = isthmus.plan(chain(12), least.figures.peak_bytes, effort=0.05)
            self.assertEqual(again.figures.peak_bytes, least.figures.peak_bytes)

    def test_random_problems_by_rules_written_anew(self):
        rng = random.Random(1)
        planned = 0
        for _ in range(60):
            problem = random_problem(rng)
            try:
                plan = isthmus.plan(problem, rng.choice(["80%", "60%", "min"]), effort=0.005, seed=rng.randrange(2**64))
                planned += 1
            except isthmus.CannotBeMet as error:
                plan = error.plan
            self.assertEqual(judged(problem, plan.schedule), (plan.figures.peak_bytes, plan.figures.cost))
            self.assertEqual(max(live_bytes(problem, plan.schedule)), plan.figures.peak_bytes)
            again = isthmus.Plan.from_schedule(problem, plan.schedule)
            self.assertEqual((again.schedule, again.figures.peak_bytes), (plan.schedule, plan.figures.peak_bytes))
        self.assertGreater(planned, 20)

    def test_the_same_plan_for_the_same_seed_and_in_threads(self):
        problem = chain(40)
        alone = isthmus.plan(problem, "30%", effort=0.1).schedule
        found = [None] * 4
        shared = [problem, problem, chain(40), chain(40)]

        def work(i):
            found[i] = isthmus.plan(shared[i], "30%", effort=0.1).schedule

        threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(found, [alone] * 4)

    def test_in_a_child_that_was_forked(self):
        problem = chain(12)
        schedule = isthmus.plan(problem, "50%", effort=0.05).schedule
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                os.write(writing, b"same" if isthmus.plan(problem, "50%", effort=0.05).schedule == schedule else b"other")
            finally:
                os._exit(0)
        os.close(writing)
        with os.fdopen(reading) as pipe:
            self.assertEqual(pipe.read(), "same")
        os.waitpid(child, 0)

    def test_a_plan_outlives_its_problem(self):
        plan = isthmus.plan(chain(12), "50%", effort=0.05)
        schedule, peak = plan.schedule, plan.figures.peak_bytes
        for _ in range(100):
            isthmus.plan(chain(3), "100%", effort=0.001)
        self.assertEqual((plan.schedule, plan.figures.peak_bytes), (schedule, peak))

    def test_schedules_are_judged(self):
        problem = chain(2)
        plan = isthmus.Plan.from_schedule(problem, (i for i in [1, 2, 3, 4]))
        self.assertEqual(plan.schedule, [1, 2, 3, 4])
        self.assertIsInstance(plan.figures.lower_bound_bytes, int)
        with self.assertRaisesRegex(isthmus.BadInput, "the schedule is not valid"):
            isthmus.Plan.from_schedule(problem, [1, 3, 4])
        self.assertEqual(live_bytes(problem, plan.schedule), [1000, 2000, 3000, 2000])
        with self.assertRaisesRegex(isthmus.BadInput, "the schedule is not valid"):
            live_bytes(problem, [1, 3, 4])
        with self.assertRaisesRegex(isthmus.BadInput, "step 1 of the schedule is op 5, and the problem has 5"):
            isthmus.Plan.from_schedule(problem, [1, 5])
        with self.assertRaisesRegex(isthmus.BadInput, "op -1"):
            isthmus.Plan.from_schedule(problem, [-1])
        with self.assertRaises(TypeError):
            isthmus.Plan.from_schedule(problem, ["1"])
        with self.assertRaisesRegex(TypeError, "expected an isthmus.Problem"):
            isthmus.Plan.from_schedule("chain", [1])
        with self.assertRaises(isthmus.BadInput):
            isthmus.Plan.from_schedule(problem, [])

    def test_what_is_asked_besides(self):
        for wrong in ({"effort": -1}, {"effort": float("nan")}, {"effort": float("inf")}, {"seed": -1}, {"seed": 2**64}):
            with self.subTest(wrong), self.assertRaises(isthmus.BadInput):
                isthmus.plan(chain(2), "50%", **wrong)
        for wrong in ({"effort": "1"}, {"seed": 1.5}, {"progress": 3}):
            with self.subTest(wrong), self.assertRaises(TypeError):
                isthmus.plan(chain(2), "50%", **wrong)
        with self.assertRaisesRegex(TypeError, "a problem is an isthmus.Problem"):
            isthmus.plan(3, "50%")
        empty = isthmus.plan(isthmus.Problem(), "min")
        self.assertEqual((empty.schedule, empty.figures.peak_bytes), ([], 0))

    def test_a_handle_is_no_address(self):
        for wrong in (None, "x", b"x", 0, 1 << 40):
            with self.subTest(wrong), self.assertRaises(TypeError):
                isthmus.Plan(wrong)
            with self.subTest(wrong), self.assertRaises(TypeError):
                isthmus.Graph(wrong)
            with self.subTest(wrong), self.assertRaises(TypeError):
                isthmus.Session(wrong)
            with self.subTest(wrong), self.assertRaisesRegex(ctypes.ArgumentError, "expected what the library made"):
                _library.call("plan_figures", wrong, None)

    def test_copies(self):
        plan = isthmus.plan(chain(2), "100%", effort=0.01)
        self.assertEqual(copy.copy(plan).schedule, plan.schedule)
        with self.assertRaisesRegex(TypeError, "neither pickled"):
            pickle.dumps(plan._handle)
        self.assertEqual(pickle.loads(pickle.dumps(plan)).schedule, plan.schedule)


class Problems(unittest.TestCase):
    def test_an_op_that_is_wrong_says_so_where_it_is_added(self):
        problem = isthmus.Problem("wrong")
        x = problem.add("x", bytes=8, pinned=True)
        two = problem.add("two", [x], 1, [8, 8])
        self.assertEqual((len(problem), problem[two].bytes, problem[two].cost), (2, (8, 8), 1.0))
        for error, message, arguments, options in (
            (isthmus.BadInput, "op 'a' reads op 2, which does not come before it", ([2],), {}),
            (isthmus.BadInput, "reads op -1", ([-1],), {}),
            (isthmus.BadInput, "reads output 2 of 'two', which has 2", ([(two, 2)],), {}),
            (TypeError, "a read is an op's number, or a pair", (["x"],), {}),
            (TypeError, "a read is an op's number, or a pair", ([(1, 0, 0)],), {}),
            (TypeError, "iterable", (3,), {}),
            (isthmus.BadInput, "cost of op 'a' .* got -1", ([x], -1), {}),
            (isthmus.BadInput, "cost of op 'a' .* got nan", ([x], float("nan")), {}),
            (isthmus.BadInput, "cost of op 'a' .* got 1e.308", ([x], 1e308), {}),
            (isthmus.BadInput, "cost of op 'a' .* got inf", ([x], 10**400), {}),
            (TypeError, "cost of op 'a' .* got str", ([x], "2"), {}),
            (isthmus.BadInput, "bytes of op 'a' .* got -8", ([x], 1, -8), {}),
            (isthmus.BadInput, "bytes of op 'a' .* got 18446744073709551624", ([x], 1, 2**64 + 8), {}),
            (TypeError, "bytes of op 'a' .* got float", ([x], 1, 8.0), {}),
            (TypeError, "bytes of op 'a' .* got str", ([x], 1, "8"), {}),
            (TypeError, "bytes of op 'a' .* got float", ([x], 1, [8, 8.0]), {}),
            (isthmus.BadInput, "has no output", ([x], 1, []), {}),
            (isthmus.BadInput, "phase of op 'a' is one of forward, backward, update; got 'upward'", ([x],), {"phase": "upward"}),
            (isthmus.BadInput, "workspace of op 'a'", ([x],), {"workspace": -1}),
            (isthmus.BadInput, "view_of of op 'a' is to be from 0 to 0, got 1", ([x],), {"view_of": 1}),
            (isthmus.BadInput, "which has no bytes of its own", ([x], 0, 8), {"view_of": 0}),
            (isthmus.BadInput, "a view cannot be pinned", ([x],), {"view_of": 0, "pinned": True}),
            (isthmus.BadInput, "what is pinned has one output, got 2", ([], 0, [8, 8]), {"pinned": True}),
            (TypeError, "may_reuse of op 'a' is a list of pairs", ([x], 1, 8), {"may_reuse": [0]}),
            (isthmus.BadInput, "the read in may_reuse of op 'a'", ([x], 1, 8), {"may_reuse": [(0, 1)]}),
            (isthmus.BadInput, "the kind of op 'a' is one of computes, starts_offload", ([x], 1, 8), {"kind": "copies"}),
            (isthmus.BadInput, "op 'a' reads op 7", ([x], 1, 8), {"of": 7}),
        ):
            with self.subTest(message), self.assertRaisesRegex(error, message):
                problem.add("a", *arguments, **options)
        with self.assertRaises(TypeError):
            problem.add(3)
        with self.assertRaisesRegex(isthmus.BadInput, "zero byte"):
            problem.add("a\0b")
        self.assertEqual(len(problem), 2)

    def test_the_rest_of_a_problem(self):
        with self.assertRaisesRegex(isthmus.BadInput, "an order is one of free, phases, fixed; got 'any'"):
            isthmus.Problem(order="any")
        for alignment in (0, -64, 2**31):
            with self.assertRaisesRegex(isthmus.BadInput, "the alignment is to be from 1"):
                isthmus.Problem(alignment=alignment)
        problem = chain(2)
        with self.assertRaisesRegex(isthmus.BadInput, "the list of outputs reads op 9"):
            problem.outputs = [9]
        self.assertEqual(problem.outputs, ((4, 0),))
        with self.assertRaises(AttributeError):
            problem.outputs.append(1)
        with self.assertRaisesRegex(isthmus.BadInput, "op 3, 'b1', is no op of the forward phase"):
            problem.forward_outputs = [3]
        huge = isthmus.Problem("huge")
        for i in range(3):
            huge.add(f"h{i}", bytes=2**61)
        with self.assertRaisesRegex(isthmus.BadInput, "over 2.62 bytes"):
            isthmus.plan(huge, "min")

    def test_an_op_that_is_added_after_a_plan_counts(self):
        problem = chain(2)
        before = isthmus.plan(problem, "100%", effort=0.01)
        extra = problem.add("extra", [1], cost=7, bytes=8)
        problem.outputs = [4, extra]
        after = isthmus.plan(problem, "100%", effort=0.01)
        self.assertNotIn(extra, before.schedule)
        self.assertIn(extra, after.schedule)

    def test_phases_keep_the_backward_ops_behind_the_forward_outputs(self):
        problem = isthmus.Problem("phases", order="phases", alignment=1)
        x = problem.add("x", bytes=10, pinned=True)
        a = problem.add("a", [x], 1, 100)
        b = problem.add("b", [x], 1, 100)
        gradient = problem.add("gradient", [a], 1, 10, phase="backward")
        end = problem.add("end", [gradient, b], 1, 10, phase="backward")
        problem.outputs = [end]
        isthmus.Plan.from_schedule(problem, [a, gradient, b, end])
        problem.forward_outputs = [b]
        with self.assertRaisesRegex(isthmus.BadInput, "'gradient' is not of the forward phase, and forward output 'b' is not computed"):
            isthmus.Plan.from_schedule(problem, [a, gradient, b, end])
        steps = isthmus.plan(problem, "100%", effort=0.01).schedule
        self.assertGreater(steps.index(gradient), steps.index(b))

    def test_bytes_of_a_dying_operand_are_taken_over(self):
        def peak(reuse):
            problem = isthmus.Problem("reuse", alignment=1)
            value = problem.add("x", bytes=100, pinned=True)
            for i in range(3):
                value = problem.add(f"f{i}", [value], 1, 100, may_reuse=[(0, 0)] if reuse else [])
            problem.outputs = [value]
            return isthmus.plan(problem, "100%", effort=0.01).figures.peak_bytes

        self.assertEqual((peak(False), peak(True)), (200, 100))

    def test_a_tensor_goes_to_the_host_and_back(self):
        problem = isthmus.Problem("offload", alignment=1)
        x = problem.add("x", bytes=100, pinned=True)
        kept = problem.add("kept", [x], 1000, 100)
        value = kept
        for i in range(4):
            value = problem.add(f"f{i}", [value], 10, 100)
        last = problem.add("last", [value, kept], 1, 100)
        problem.outputs = [last]
        start = problem.add("to", [kept], kind="starts_offload", transfer_time=5)
        wait = problem.add("there", [start], kind="waits_offload")
        back = problem.add("from", [wait], 0, 100, kind="starts_prefetch", transfer_time=5)
        end = problem.add("back", [back], kind="waits_prefetch", of=kept)
        with_all = isthmus.Plan.from_schedule(problem, [1, start, 2, wait, 3, 4, back, 5, end, last])
        self.assertEqual((with_all.figures.transfers, with_all.figures.recomputed), (2, 0))
        self.assertEqual(isthmus.Problem.from_json(problem.to_json()).to_json(), problem.to_json())
        without = isthmus.Plan.from_schedule(problem, [1, 2, 3, 4, 5, last])
        self.assertEqual((without.figures.transfers, with_all.figures.cost), (0, without.figures.cost))
        problem.add("wrong", [back])
        with self.assertRaisesRegex(isthmus.BadInput, "wrong"):
            isthmus.plan(problem, "min")

    def test_text_there_and_back(self):
        rng = random.Random(2)
        for _ in range(60):
            problem = random_problem(rng)
            text = problem.to_json()
            back = isthmus.Problem.from_json(text)
            self.assertEqual(back.to_json(), isthmus.Problem.from_json(back.to_json()).to_json())
            self.assertEqual((back.name, back.order, back.alignment), (problem.name, problem.order, problem.alignment))
            order = [i for i, op in enumerate(problem) if not op.pinned]
            figures = isthmus.Plan.from_schedule(problem, order).figures
            again = isthmus.Plan.from_schedule(back, [i for i, op in enumerate(back) if not op.pinned]).figures
            if len(back) == len(problem):  # no output is read alone where there are several
                self.assertEqual((again.peak_bytes, again.cost), (figures.peak_bytes, figures.cost))
            self.assertEqual(again.baseline_cost, figures.baseline_cost)

    def test_one_of_two_outputs_is_what_the_forward_returns(self):
        """It is there before the backward begins, in the text too."""
        problem = isthmus.Problem(order="phases")
        x = problem.add("x", bytes=64, pinned=True)
        loss = problem.add("loss", [x], cost=1, bytes=[64, 128])
        gradient = problem.add("gradient", [(loss, 1)], cost=1, bytes=64, phase="backward")
        problem.outputs = [(loss, 0), gradient]
        problem.forward_outputs = [loss]
        back = isthmus.Problem.from_json(problem.to_json())
        self.assertEqual(isthmus.plan(back, "min").figures.peak_bytes, isthmus.plan(problem, "min").figures.peak_bytes)

    def test_the_text_of_a_file_says_what_the_file_does(self):
        rng = random.Random(5)
        with_optional = 0
        for number in range(150):
            graph = joint_graphs.random_problem(rng, number)
            if number % 2:
                joint_graphs.add_update(rng, graph)
            problem = isthmus.Problem.from_dict(graph)
            again = isthmus.Problem.from_json(problem.to_json())
            self.assertEqual((list(again), again.to_json()), (list(problem), problem.to_json()))
            with_optional += any(op.is_optional for op in problem)
            text = json.dumps(graph).encode()
            read_by_the_library = _library.make("problem", "problem_from_json", text, len(text))
            self.assertEqual(planned(problem._handle(), number), planned(read_by_the_library, number))
        self.assertGreater(with_optional, 50)

    def test_all_that_an_op_has_is_in_the_text(self):
        problem = isthmus.Problem("all", order="phases")
        x = problem.add("x", bytes=64, pinned=True)
        y = problem.add("y", [x], 2.5, [64, 32, 16], workspace=128, recomputable=False)
        part = problem.add("part", [(y, 1)], view_of=0)
        both = problem.add("both", [(y, 0), (y, 1), (y, 2), part], 1, 64)
        last = problem.add("é", [both, part], 1, 64, phase="backward", may_reuse=[(0, 0)])
        problem.outputs = [last, (y, 0), (y, 1), (y, 2)]
        problem.forward_outputs = [both]
        again = isthmus.Problem.from_json(problem.to_json().encode())
        self.assertEqual(list(again), list(problem))
        self.assertEqual(set(again.outputs), set(problem.outputs))
        self.assertEqual(again.forward_outputs, problem.forward_outputs)
        self.assertEqual(pickle.loads(pickle.dumps(problem)).to_json(), problem.to_json())

    def test_an_alternative_may_read_one_of_several_outputs(self):
        problem = isthmus.Problem("alternative", alignment=1)
        x = problem.add("x", bytes=8, pinned=True)
        y = problem.add("y", [x], 5, [8, 4])
        z = problem.add("z", [(y, 0)], 9, 16)
        other = problem.add("other", [(y, 1), x], 2, 16, of=z)
        problem.outputs = [z, (y, 1)]
        back = isthmus.Problem.from_json(problem.to_json())
        self.assertEqual([op.name for op in back], ["x", "y", "y.0", "y.1", "z", "other"])
        self.assertEqual((back[5].reads, back[5].of, back.outputs), (((3, 0), (0, 0)), 4, ((4, 0), (3, 0))))
        cost = isthmus.Plan.from_schedule(problem, [y, other]).figures.cost
        self.assertEqual((cost, isthmus.Plan.from_schedule(back, [1, 3, 5]).figures.cost), (7, 7))

    def test_what_is_not_complete_has_no_text(self):
        problem = isthmus.Problem()
        kept = problem.add("kept", bytes=8)
        problem.add("to", [kept], kind="starts_offload")
        with self.assertRaisesRegex(isthmus.BadInput, "to: expected one wait for the transfer, found 0"):
            problem.to_json()

    def test_nodes_without_names_have_numbers(self):
        nodes = [{"id": 0, "inputs": [], "bytes": 8, "cost": 1}, {"id": 1, "inputs": [0], "bytes": 8, "cost": 1, "name": "f"}]
        problem = isthmus.Problem.from_dict({"name": "g", "nodes": nodes, "outputs": [1]})
        self.assertEqual([op.name for op in problem], ["node 0", "f"])

    def test_files_and_their_content(self):
        text = chain(4).to_json()
        expected = isthmus.plan(chain(4), "70%", effort=0.02).schedule
        self.assertEqual(isthmus.plan(json.loads(text), "70%", effort=0.02).schedule, expected)
        with tempfile.TemporaryDirectory() as folder:
            plain, packed = os.path.join(folder, "p.json"), os.path.join(folder, "p.json.gz")
            with open(plain, "w") as file, gzip.open(packed, "wt") as archive:
                file.write(text)
                archive.write(text)
            for path in (plain, packed):
                self.assertEqual(isthmus.plan(path, "70%", effort=0.02).schedule, expected)
            with self.assertRaisesRegex(isthmus.BadInput, "cannot read '.*no.json': No such file"):
                isthmus.plan(os.path.join(folder, "no.json"), "70%")
            sparse, bomb, short = (os.path.join(folder, name) for name in ("sparse", "bomb.gz", "short.gz"))
            with open(sparse, "wb") as file:
                file.truncate(1 << 40)
            with gzip.open(bomb, "wb") as archive:
                archive.write(b'{"name": "' + bytes(64 << 20))
            with open(packed, "rb") as file, open(short, "wb") as cut:
                cut.write(file.read()[:-10])
            for path, says in {
                "/dev/zero": "expected a file or a pipe, found a device",
                folder: "Is a directory",
                sparse: "expected a JSON object, and its text begins with",
                bomb: "unpack to over 200 times as many",
                short: "ended before the end-of-stream marker",
            }.items():
                with self.assertRaisesRegex(isthmus.BadInput, f"cannot read '.*': .*{says}"):
                    isthmus.plan(path, "70%")
            pipe = os.path.join(folder, "pipe")
            os.mkfifo(pipe)
            with open(packed, "rb") as file:
                content = file.read()

            def write():
                with open(pipe, "wb") as file:
                    file.write(content)

            writer = threading.Thread(target=write)
            writer.start()
            self.assertEqual(isthmus.plan(pipe, "70%", effort=0.02).schedule, expected)
            writer.join()
        with self.assertRaisesRegex(isthmus.BadInput, "expected a JSON object with a list 'nodes'"):
            isthmus.plan({"graph": []}, "70%")
        with self.assertRaisesRegex(TypeError, "not what a joint-graph file holds"):
            isthmus.plan({"nodes": {1, 2}}, "70%")
        with self.assertRaises(isthmus.BadInput):
            isthmus.Problem.from_json("[1, 2")
        with self.assertRaisesRegex(TypeError, "a string or bytes"):
            isthmus.Problem.from_json(3)


class Interrupted(unittest.TestCase):
    def test_progress_is_told_on_the_callers_thread_and_rises(self):
        seen = []

        def progress(share, best_cost):
            seen.append((share, best_cost, threading.current_thread()))

        plan = isthmus.plan(chain(40), "30%", effort=2, progress=progress)
        self.assertGreater(len(seen), 3)
        shares = [share for share, _, _ in seen]
        self.assertEqual(shares, sorted(shares))
        self.assertTrue(all(0 <= share <= 1 for share in shares))
        self.assertEqual({thread for _, _, thread in seen}, {threading.current_thread()})
        self.assertAlmostEqual(seen[-1][1], plan.figures.cost, delta=plan.figures.cost / 2)

    def test_false_ends_the_search(self):
        begin = time.monotonic()
        with self.assertRaisesRegex(isthmus.Cancelled, "cancelled before a plan within"):
            isthmus.plan(chain(200), "0.5%", effort=1e6, progress=lambda share, cost: False)
        plan = isthmus.plan(chain(200), "20%", effort=1e6, progress=lambda share, cost: False)
        self.assertLessEqual(plan.figures.peak_bytes, 0.2 * plan.figures.baseline_peak_bytes)
        plan = isthmus.plan(chain(40), "30%", effort=10, progress=lambda share, cost: cost == 0)
        self.assertLessEqual(plan.figures.peak_bytes, 0.3 * plan.figures.baseline_peak_bytes)
        self.assertLess(time.monotonic() - begin, 30)

    def test_what_progress_raises_is_raised(self):
        class Mine(Exception):
            pass

        def progress(share, cost):
            raise Mine("of mine")

        with self.assertRaisesRegex(Mine, "of mine"):
            isthmus.plan(chain(40), "30%", effort=1e6, progress=progress)
        with self.assertRaises(TypeError):
            isthmus.plan(chain(40), "30%", effort=1e6, progress=lambda share: True)
        self.assertEqual([t for t in threading.enumerate() if t.name == "isthmus"], [])

    # A search that would take days, with and without a progress function, and twice in a row.
    def test_ctrl_c_ends_the_search_at_once(self):
        program = """
import sys, time, isthmus
from python_plan_test import chain
problem = chain(100)
for progress in (None, lambda share, cost: print("on", file=sys.stderr) if share < 0 else None):
    print("plans", flush=True)
    try:
        isthmus.plan(problem, "20%", effort=1e6, progress=progress)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
print(len(isthmus.plan(problem, "90%", effort=0.01).schedule) > 0, flush=True)
"""
        path = os.pathsep.join([os.path.dirname(os.path.abspath(__file__)), *sys.path])
        child = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                 env={**os.environ, "PYTHONPATH": path})
        for _ in range(2):
            self.assertEqual(child.stdout.readline(), "plans\n")
            time.sleep(0.5)
            begin = time.monotonic()
            child.send_signal(signal.SIGINT)
            self.assertEqual(child.stdout.readline(), "interrupted\n")
            self.assertLess(time.monotonic() - begin, 5)
        with child:  # (communicate would leave out what readline has read ahead)
            out, err = child.stdout.read(), child.stderr.read()
        self.assertEqual((out, err, child.returncode), ("True\n", "", 0))

    def test_the_process_ends_while_a_daemon_thread_plans(self):
        program = """
import sys, threading, time, isthmus
from python_plan_test import chain
problem, started = chain(100), threading.Event()
progress = (lambda share, cost: started.set()) if sys.argv[1] == "reporting" else None
threading.Thread(target=lambda: isthmus.plan(problem, "20%", effort=1e6, progress=progress), daemon=True).start()
started.wait() if progress else time.sleep(0.3)
print("leaving")
"""
        path = os.pathsep.join([os.path.dirname(os.path.abspath(__file__)), *sys.path])
        for how in "reporting", "silent":
            done = subprocess.run([sys.executable, "-c", program, how], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path})
            self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "leaving\n", ""), how)

    def test_an_error_does_not_hold_what_its_callers_hold(self):
        class Held:
            pass

        def refused():
            held = Held()
            with contextlib.suppress(isthmus.CannotBeMet):
                isthmus.plan(chain(20), 1, effort=0.01)
            return weakref.ref(held)

        gc.disable()
        self.addCleanup(gc.enable)
        self.assertIsNone(refused()())

    def test_what_is_planned_at_exit_is_planned(self):
        program = """
import atexit
atexit.register(lambda: print(len(isthmus.plan(chain(20), "90%", effort=0.01).schedule) > 0))
import isthmus
from python_plan_test import chain
"""
        path = os.pathsep.join([os.path.dirname(os.path.abspath(__file__)), *sys.path])
        no_threads = """
import threading
def start(thread): raise RuntimeError("can't create new thread at interpreter shutdown")
atexit.register(lambda: setattr(threading.Thread, "start", start))
"""
        for python in program, program + no_threads:  # as Python 3.12 has it, whichever runs this test
            done = subprocess.run([sys.executable, "-c", python], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path})
            self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "True\n", ""))

    def test_progress_is_told_now_and_then_since_the_search_waits_for_the_interpreter(self):
        calls = []
        isthmus.plan(chain(100), "30%", effort=2, progress=lambda share, cost: calls.append(time.monotonic()))
        self.assertGreater(min(b - a for a, b in zip(calls, calls[1:])), 0.045)

    def test_other_threads_run_meanwhile(self):
        count, done = 0, threading.Event()

        def search():
            isthmus.plan(chain(100), "30%", effort=0.5)
            done.set()

        thread = threading.Thread(target=search)
        thread.start()
        while not done.wait(0.001):
            count += 1
        thread.join()
        self.assertGreater(count, 20)


class Pickles(unittest.TestCase):
    def test_exceptions_and_plans(self):
        with self.assertRaises(isthmus.CannotBeMet) as caught:
            isthmus.plan(chain(20), 1, effort=0.01)
        caught.exception.note = "of the caller"
        for copied in pickle.loads(pickle.dumps(caught.exception)), copy.deepcopy(caught.exception), in_a_process(caught.exception):
            self.assertIs(type(copied), isthmus.CannotBeMet)
            self.assertEqual((str(copied), copied.note), (str(caught.exception), "of the caller"))
            self.assertEqual(copied.plan.schedule, caught.exception.plan.schedule)
            self.assertEqual(copied.plan.figures, caught.exception.plan.figures)
            self.assertEqual(repr(copied.plan), repr(caught.exception.plan))
            self.assertEqual(pickle.loads(pickle.dumps(copied)).plan.schedule, caught.exception.plan.schedule)
        for kind in isthmus.BadInput, isthmus.Unsupported, isthmus.OutOfMemory, isthmus.Internal, isthmus.Cancelled, isthmus.Error:
            copied = in_a_process(kind("what", 3))
            self.assertEqual((type(copied), copied.args), (kind, ("what", 3)))
        self.assertTrue(issubclass(isthmus.OutOfMemory, MemoryError))


def in_a_process(sent):
    """Returns the copy of `sent` that a worker process of multiprocessing makes."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(copy.copy, (sent,))


class Package(unittest.TestCase):
    def test_a_library_that_is_missing_or_wrong_is_told(self):
        def tried(**variables):
            environment = {k: v for k, v in os.environ.items() if k != "ISTHMUS_LIBRARY"}
            path = os.pathsep.join(sys.path)
            return subprocess.run([sys.executable, "-c", "import isthmus"], capture_output=True, text=True,
                                  env={**environment, "PYTHONPATH": path, **variables}).stderr

        self.assertRegex(tried(), r"ImportError: isthmus found no libisthmus.so(.|\n)*\$ISTHMUS_LIBRARY: not set")
        self.assertRegex(tried(ISTHMUS_LIBRARY="/no/such.so"), r"/no/such.so \(\$ISTHMUS_LIBRARY\): there is no such file")
        self.assertRegex(tried(ISTHMUS_LIBRARY=__file__), r"python_plan_test.py \(\$ISTHMUS_LIBRARY\): .*invalid ELF header")
        libc = subprocess.run(["gcc", "-print-file-name=libc.so.6"], capture_output=True, text=True).stdout.strip() or "libc.so.6"
        self.assertRegex(tried(ISTHMUS_LIBRARY=libc), r"undefined symbol: isthmus_")

    def test_it_imports_neither_numpy_nor_torch(self):
        program = "import sys, isthmus; print([m for m in ('numpy', 'torch') if m in sys.modules])"
        path = os.pathsep.join(sys.path)
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path})
        self.assertEqual((done.stdout, done.stderr), ("[]\n", ""))

    def test_it_is_written_for_python_3_9_and_documented(self):
        for name in sorted(os.listdir(PACKAGE)):
            if name.endswith(".py"):
                with open(os.path.join(PACKAGE, name)) as file:
                    tree = ast.parse(file.read(), feature_version=(3, 9))
                self.assertTrue(ast.get_docstring(tree), name)
        self.assertTrue(os.path.exists(os.path.join(PACKAGE, "py.typed")))
        for name in isthmus.__all__:
            self.assertTrue(getattr(isthmus, name).__doc__, name)


if __name__ == "__main__":
    unittest.main()
