"""Compares plans with an exact solver: HiGHS on the integer program of Checkmate (Jain et al., MLSys 2020)."""

import command

command.with_python_of_torch()

import json  # noqa: E402
import random  # noqa: E402

import highspy  # noqa: E402


class Node:
    def __init__(self, inputs, size, cost, backward=False):
        self.inputs, self.size, self.cost, self.backward = list(dict.fromkeys(inputs)), size, cost, backward


# All tensors have one size and therefore lie without gaps, so that the arena, which our budget limits, is as large as
# the peak, which the solver's budget limits.
SIZE = 10


def chain(rng, n):
    """Returns n layers, and for each a gradient that reads the layer's operand and the gradient of the next layer."""
    nodes = [Node([i - 1] if i else [], SIZE, rng.randint(1, 9)) for i in range(n)]
    for i in range(n):
        kept = n - 1 - i
        nodes.append(Node([len(nodes) - 1] + ([kept] if i else []), SIZE, rng.randint(1, 9), True))
    return nodes


def unet(rng, levels):
    """Returns a network that goes down and up with a skip at each level, and its gradients."""
    nodes, skips = [Node([], SIZE, rng.randint(1, 9))], []
    for _ in range(levels):
        skips.append(len(nodes) - 1)
        nodes.append(Node([len(nodes) - 1], SIZE, rng.randint(1, 9)))
    for skip in reversed(skips):
        nodes.append(Node([len(nodes) - 1, skip], SIZE, rng.randint(1, 9)))
    for i in reversed(range(1, len(nodes))):
        nodes.append(Node([len(nodes) - 1] + nodes[i].inputs, SIZE, rng.randint(1, 9), True))
    return nodes


def mixed(rng, n):
    """Returns nodes that read the preceding node and others, all of them needed."""
    nodes = [Node([], SIZE, rng.randint(1, 9))]
    for i in range(1, n):
        others = rng.sample(range(i - 1), min(i - 1, rng.randint(0, 2)))
        nodes.append(Node([i - 1] + others, SIZE, rng.randint(1, 9), i > n // 2))
    return nodes


def problem(nodes):
    """Returns the nodes as joint-graph/2 in this order; the last node is the output."""
    return {
        "format": "joint-graph/2", "name": "g", "order": "fixed", "inputs": [], "params": [], "grads": [],
        "outputs": [len(nodes) - 1],
        "nodes": [{"id": i, "op": "f", "name": f"op{i}", "phase": "backward" if v.backward else "forward",
                   "inputs": v.inputs, "bytes": v.size, "view": False, "cost": v.cost, "recomputable": True}
                  for i, v in enumerate(nodes)],
    }


def peak(nodes):
    """Returns the peak without recomputation: at each node, the values that it makes, or that it or a later node
    reads."""
    last = {u: i for i, v in enumerate(nodes) for u in v.inputs}
    return max(sum(nodes[u].size for u in range(i + 1) if u == i or last.get(u, -1) >= i) for i in range(len(nodes)))


class Checkmate:
    """Finds the least cost within a budget, for schedules in stages.

    In stage t node t runs for the first time, after any of the nodes before it have run again in their order.
    R[t][i]: i runs in stage t. S[t][i]: i is kept from stage t - 1. Free[t][i][k] of the paper's section 4.5: i dies in
    stage t after k has run, as it is neither read later in this stage nor kept for the next. U[t][k]: live bytes while
    k runs.
    """

    def __init__(self, nodes, budget):
        self.nodes, self.model = nodes, highspy.Highs()
        m = self.model
        m.setOptionValue("output_flag", False)
        m.setOptionValue("time_limit", 100.0)
        m.setOptionValue("mip_rel_gap", 0.0)
        m.setOptionValue("mip_abs_gap", 1e-6)
        m.setOptionValue("threads", 1)
        n = len(nodes)
        stages = range(n)
        readers = [[j for j in range(n) if i in nodes[j].inputs] for i in range(n)]
        self.R = R = [[m.addBinary(obj=nodes[i].cost) for i in range(t + 1)] for t in stages]
        S = [[m.addBinary() for _ in range(t)] for t in stages]
        for t in stages:
            m.addConstr(R[t][t] == 1)
            for i in range(t):
                m.addConstr(S[t][i] <= R[t - 1][i] + (S[t - 1][i] if i < t - 1 else 0))
            for k in range(t + 1):
                for i in nodes[k].inputs:
                    m.addConstr(R[t][k] <= R[t][i] + S[t][i])
        for t in stages:
            # dies[i, k]: i is an operand of k, or k itself, and is not needed after k has run.
            dies = {}
            for k in range(t + 1):
                for i in [*nodes[k].inputs, k]:
                    later = [R[t][j] for j in readers[i] if k < j <= t]
                    if t + 1 < n:
                        later.append(S[t + 1][i])
                    elif i == n - 1:
                        continue  # the output stays
                    x = dies[i, k] = m.addBinary()
                    # It is 1 exactly if k runs and none of `later` is 1.
                    m.addConstr(x <= R[t][k])
                    for other in later:
                        m.addConstr(x <= 1 - other)
                    m.addConstr(x >= R[t][k] - sum(later))
            used = sum((nodes[i].size * S[t][i] for i in range(t)), start=m.expr(0))
            for k in range(t + 1):
                # A node that is kept does not run again, as two instances would be counted.
                if k < t:
                    m.addConstr(R[t][k] + S[t][k] <= 1)
                used = used + nodes[k].size * R[t][k]
                m.addConstr(used <= budget)
                for i in [*nodes[k].inputs, k]:
                    if (i, k) in dies:
                        used = used - nodes[i].size * dies[i, k]

    def cost(self):
        """Returns None if no schedule is within the budget."""
        self.model.minimize()
        status = self.model.getModelStatus()
        if status == highspy.HighsModelStatus.kInfeasible:
            return None
        assert status == highspy.HighsModelStatus.kOptimal, status
        return self.model.getObjectiveValue()


class Solver(command.TestCase):
    def compare(self, name, nodes, percents):
        self.write("p.json", json.dumps(problem(nodes)))
        once = sum(v.cost for v in nodes)
        for percent in percents:
            budget = peak(nodes) * percent // 100
            with self.subTest(f"{name} {percent}%"):
                result = command.run("plan", "p.json", f"--budget={budget}", "--effort=0.2", "--report=r.json", "-o", "s.json",
                                     cwd=self.dir)
                self.assertIn(result.code, (0, 3), result)
                r = json.loads(self.read("r.json"))
                self.assertEqual(r["baseline_peak_bytes"], peak(nodes))
                exact = Checkmate(nodes, budget).cost()
                if result.code == 3:
                    if exact is not None:
                        self.missed.append(f"{name} {percent}%: {exact:g} within {budget} bytes")
                    continue
                ours = once * (1 + r["recompute_overhead"])
                self.assertLessEqual(r.get("lower_bound_overhead") or 0, r["recompute_overhead"] + 1e-9)
                self.met += 1
                if exact is None:
                    self.beyond += 1
                    continue
                # Our schedules are not restricted to stages: they may cost less, but not more.
                self.assertLessEqual(ours, exact + 1e-6 * once)
                self.assertLessEqual((r.get("lower_bound_overhead") or 0) * once, exact - once + 1e-6 * once)
                self.dear += exact > once + 0.5

    def setUp(self):
        super().setUp()
        self.met = self.beyond = self.dear = 0
        self.missed = []  # budgets that the solver meets and our planner does not

    def tearDown(self):
        print(f"{self.id()}: {self.met} budgets met, {self.dear} at a cost, {self.beyond} that stages cannot meet, "
              f"missed: {self.missed}")
        super().tearDown()

    def test_chains(self):
        rng = random.Random(1)
        for n in 5, 6, 7:
            self.compare(f"chain of {n}", chain(rng, n), (90, 80, 70, 60))
        self.assertEqual(self.missed, [])
        self.assertGreater(self.dear, 4)

    def test_skips(self):
        rng = random.Random(2)
        for levels in 2, 3:
            self.compare(f"unet of {levels}", unet(rng, levels), (90, 80, 70))
        self.assertEqual(self.missed, [])
        self.assertGreater(self.dear, 1)

    def test_mixed(self):
        rng = random.Random(3)
        for i in range(6):
            self.compare(f"mixed {i}", mixed(rng, 10 + i), (90, 75))
        # Networks have other shapes than these, and the search is heuristic: one of a dozen budgets may be missed.
        self.assertLessEqual(len(self.missed), 1)
        self.assertGreater(self.dear, 3)


if __name__ == "__main__":
    command.main()
