"""Prints the reports of a folder as one table.

Usage: report_table.py FOLDER PLANNED:RUN...

For every budget and policy, `isthmus opt` has written FOLDER/PLANNED-POLICY.plan.json, and `isthmus run` has written
FOLDER/RUN-POLICY.run.json, perhaps for a smaller batch. "planned" columns come from the first, "run" columns from the second.
"""

import json
import os
import statistics
import sys

POLICIES = ("none", "60%", "50%", "min", "speed", "memory", "list")
HEAD = ("model", "budget, policy", "baseline", "predicted", "arena", "added", "run as", "predicted", "measured", "arena", "step")


def mib(n):
    return f"{n / 2**20:.1f} MiB"


def rows(folder, planned, run):
    for policy in POLICIES:
        with open(os.path.join(folder, f"{planned}-{policy}.plan.json")) as f:
            p = json.load(f)
        with open(os.path.join(folder, f"{run}-{policy}.run.json")) as f:
            r = json.load(f)
        yield (
            planned,
            policy,
            mib(p["baseline_peak_bytes"]),
            mib(p["predicted_peak_bytes"]),
            mib(p["arena_bytes"]),
            f"{100 * p['recompute_overhead']:.1f} %",
            run,
            mib(r["predicted_peak_bytes"]),
            mib(r["measured_peak_bytes"]),
            mib(r["arena_bytes"]),
            f"{1000 * statistics.median(r['step_seconds']):.0f} ms",
        )


def main(folder, *pairs):
    table = [HEAD]
    for pair in pairs:
        table += rows(folder, *pair.split(":"))
    widths = [max(len(row[i]) for row in table) for i in range(len(HEAD))]
    for i, row in enumerate(table):
        print("  ".join(cell.ljust(w) if k < 2 or k == 6 else cell.rjust(w) for k, (cell, w) in enumerate(zip(row, widths))))
        if i == 0:
            print("  ".join("-" * w for w in widths))


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
