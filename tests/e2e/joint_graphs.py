"""Training graphs in the joint-graph formats, as chains and as random graphs, with random schedules, most of which are
valid."""


def problem(n):
    """Returns a chain of n ops of 1000 bytes, and a backward chain that reads them in reverse order, as
    joint-graph/1."""
    nodes = [{"id": 0, "op": "input", "phase": "forward", "inputs": [], "bytes": 1000, "view": False, "cost": 0,
              "recomputable": True, "persistent": True, "name": "x"}]
    for i in range(1, 2 * n + 1):
        inputs = [i - 1] + ([2 * n + 1 - i] if i > n else [])
        nodes.append({"id": i, "op": "f", "phase": "forward" if i <= n else "backward", "inputs": inputs, "bytes": 1000,
                      "view": False, "cost": 2.0, "recomputable": True, "name": f"op{i}"})
    return {"format": "joint-graph/1", "name": f"chain{n}", "nodes": nodes, "inputs": [0], "params": [],
            "outputs": [2 * n], "grads": [2 * n]}


def add_optional(rng, nodes, total):
    """Adds alternatives for a tensor or for one result of several, and transfers to the host and back."""
    own = [v for v in nodes[1:total] if not v["view"]]
    readable = list(range(total))  # optional nodes may read these
    for _ in range(rng.choice([0, 1, 2, 5])):
        of = rng.choice(own)
        sizes = of.get("out_bytes", [of["bytes"]])
        slot = rng.choice([None, rng.randrange(len(sizes))])
        made = sizes if slot is None else [sizes[slot]]
        target = {"of": of["id"] if slot is None else [of["id"], slot]}
        n = len(nodes)
        common = {"phase": rng.choice(["forward", "forward", "backward"]), "view": False, "cost": rng.randint(0, 9),
                  "recomputable": rng.random() < 0.9}
        if rng.random() < 0.6:
            # Half of them read what the node itself reads, as another implementation would.
            inputs = list(of["inputs"]) if rng.random() < 0.5 else rng.sample(readable, min(len(readable), rng.randint(1, 2)))
            nodes.append({"id": n, "op": "other", "name": f"other{n}", "inputs": inputs, "bytes": sum(made),
                          "out_bytes": made, **common, **target})
            if rng.random() < 0.3:
                nodes[-1]["workspace"] = rng.randint(1, 300)
            if rng.random() < 0.3:
                nodes[-1]["may_reuse"] = [[0, rng.randrange(len(inputs))]]
        else:
            copied = of["id"] if rng.random() < 0.7 else rng.choice(readable[1:])
            copy = {"view": False, "cost": 0, "recomputable": True, "phase": "forward"}
            back = {**copy, "phase": common["phase"]}
            nodes += [
                {"id": n, "op": "copy", "name": f"out{n}", "inputs": [copied], "bytes": 0, "kind": "copy_start",
                 "direction": "to_host", "bus_us": rng.randint(0, 9), **copy},
                {"id": n + 1, "op": "wait", "name": f"out wait{n}", "inputs": [n], "bytes": 0, "kind": "copy_wait",
                 "direction": "to_host", **copy},
                {"id": n + 2, "op": "copy", "name": f"in{n}", "inputs": [n + 1], "bytes": sum(made), "out_bytes": made,
                 "kind": "copy_start", "direction": "to_device", "bus_us": rng.randint(0, 9), **back},
                {"id": n + 3, "op": "wait", "name": f"in wait{n}", "inputs": [n + 2], "bytes": 0, "kind": "copy_wait",
                 "direction": "to_device", **back, **target},
            ]
        readable.append(len(nodes) - 1)


def random_problem(rng, number):
    """Returns a joint-graph/2 with all features of the format: alignment, workspaces, donations, views, several
    outputs, orders, alternatives and transfers."""
    forward = rng.randint(4, 12)
    nodes = [{"id": 0, "op": "input", "phase": "forward", "inputs": [], "bytes": 64, "view": False, "cost": 0,
              "recomputable": True, "persistent": True, "name": "x"}]
    total = forward + rng.randint(4, 12)
    for i in range(1, total):
        inputs = sorted({i - 1, *(rng.randrange(i) for _ in range(rng.randrange(3)))}, reverse=True)
        node = {"id": i, "op": "f", "name": f"op{i}", "phase": "forward" if i <= forward else "backward", "inputs": inputs,
                "view": False, "cost": rng.randint(1, 9), "recomputable": rng.random() < 0.9}
        base = nodes[inputs[0]]
        if rng.random() < 0.15 and i > 1:
            node.update(view=True, bytes=0, cost=0)
            if len(base.get("out_bytes", [])) > 1:
                node.update(index=rng.randrange(len(base["out_bytes"])), inputs=inputs[:1])
        elif rng.random() < 0.2:
            node["out_bytes"] = [rng.randint(1, 300), rng.randint(1, 300)]
            node["bytes"] = sum(node["out_bytes"])
        else:
            node["bytes"] = rng.randint(1, 500)
        if not node["view"]:
            if rng.random() < 0.3:
                node["workspace"] = rng.randint(1, 300)
            if rng.random() < 0.4:
                node["may_reuse"] = [[0, rng.randrange(len(inputs))]]
        nodes.append(node)
    add_optional(rng, nodes, total)
    return {"format": "joint-graph/2", "name": f"random{number}", "nodes": nodes, "inputs": [0], "params": [],
            "outputs": sorted({total - 1, rng.randint(1, total - 1)}), "grads": [],
            "alignment": rng.choice([1, 16, 64]), "order": rng.choice(["free", "phases", "fixed"]),
            "forward_outputs": [rng.randint(1, forward)]}


def add_update(rng, graph):
    """Adds an optimizer's update, which overwrites x after all its readers."""
    nodes = graph["nodes"]
    views = [v for v in nodes if v["view"]]
    for v in views:  # a view reads only its base, which may be overwritten
        v["inputs"] = v["inputs"][:1]
    x = nodes[0]["id"]
    of_x = {x}  # x and its views
    for v in views:
        if v["inputs"][0] in of_x:
            of_x.add(v["id"])
    read = rng.choice([v["id"] for v in nodes if "of" not in v and "kind" not in v and v["id"] not in of_x])
    update = {"id": len(nodes), "op": "update", "name": "update", "phase": "update", "inputs": [read, x], "bytes": 0, "view": False,
              "cost": rng.randint(0, 4), "recomputable": False, "overwrites": [1]}
    nodes.append(update)
    graph["outputs"] = [*(v for v in graph["outputs"] if v not in of_x), update["id"]]
    graph["forward_outputs"] = [v for v in graph["forward_outputs"] if v not in of_x]


def random_schedule(rng, graph, before):
    """Returns a schedule with one random change to `before`."""
    nodes, s, kind = graph["nodes"], list(before), rng.random()
    others = [v["id"] for v in nodes if "of" in v and "kind" not in v]
    pairs = [[v["id"] + k for k in range(4)] for v in nodes if v.get("kind") == "copy_start" and v["direction"] == "to_host"]
    plain = [v["id"] for v in nodes if not v.get("persistent") and "of" not in v and "kind" not in v]
    if kind < 0.25 and others:
        s.insert(rng.randint(0, len(s)), rng.choice(others))
    elif kind < 0.55 and pairs:
        places = sorted(rng.randint(0, len(s)) for _ in range(4))
        for k, (node, at) in enumerate(zip(rng.choice(pairs), places)):
            s.insert(at + k, node)
    elif kind < 0.65 and others:
        other = rng.choice(others)
        of = nodes[other]["of"]
        s = [other if v == (of[0] if isinstance(of, list) else of) else v for v in s]
    elif kind < 0.8:
        s.insert(rng.randint(0, len(s)), rng.choice(plain))
    elif kind < 0.9 and s:
        s.pop(rng.randrange(len(s)))
    elif len(s) > 1:
        i = rng.randrange(len(s) - 1)
        s[i], s[i + 1] = s[i + 1], s[i]
    return s
