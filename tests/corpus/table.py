"""Writes the table: a line for each file, then the failures with the commands that repeat them."""

import csv
import json
import os

COLUMNS = [
    "nodes",
    "forward",
    "parameters",
    "learned",
    "computed",
    "buffers",
    "train",
    "eval",
    "differences",
    "draws",
    "memory",
    "budget",
    "onnx",
    "seconds",
]
SHARES, ERRORS = ("memory", "budget"), ("forward", "train", "eval", "differences", "onnx")


def shown(column, value):
    if value is None:
        return "-"
    if column in SHARES:
        return f"{value:.0%}"
    if column in ERRORS:
        return f"{value:.0e}" if value else "0"
    return f"{value:.0f}" if column == "seconds" else str(value)


def verdict(row):
    if row.failures:
        return "FAILED " + ",".join(dict.fromkeys(question for question, _, _ in row.failures))
    return row.outcome[:60] or "ok"


def line(row):
    cells = [f"{shown(c, row.figures.get(c)):>{max(6, len(c))}}" for c in COLUMNS]
    return f"{row.name:40} {row.export:16} {' '.join(cells)}  {verdict(row)}"


def head():
    return f"{'model':40} {'export':16} {' '.join(f'{c:>6}' for c in COLUMNS)}  outcome"


def write(rows, folder):
    """Writes corpus.txt, .csv and .json, and prints failures and the count. Returns the exit status."""
    rows = sorted(rows, key=lambda r: (r.name, r.export))
    failed = [r for r in rows if r.failures]
    skipped = [r for r in rows if r.outcome.startswith(("not exported", "skipped"))]
    text = [head(), *map(line, rows), ""]
    for row in failed:
        text.append(f"{row.name} {row.export}")
        for question, what, command in row.failures:
            text.append(f"  {question}: {what}")
            if command:
                text.append(f"    {command}")
    with open(os.path.join(folder, "corpus.txt"), "w", encoding="utf-8") as file:
        file.write("\n".join(text) + "\n")
    with open(os.path.join(folder, "corpus.csv"), "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["model", "export", *COLUMNS, "outcome"])
        for row in rows:
            writer.writerow([row.name, row.export, *(row.figures.get(c, "") for c in COLUMNS), verdict(row)])
    with open(os.path.join(folder, "corpus.json"), "w", encoding="utf-8") as file:
        json.dump([vars(r) for r in rows], file, indent=1, default=float)
    print("\n".join(text[len(rows) + 1 :]))
    print(f"{len(rows) - len(failed) - len(skipped)} passed, {len(failed)} failed, {len(skipped)} skipped")
    return 1 if failed else 0
