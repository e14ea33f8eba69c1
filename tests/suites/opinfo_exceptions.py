"""The table of what the OpInfo test leaves out: opinfo_exceptions.txt, whose head tells its form."""

import os
import re
import textwrap
from dataclasses import dataclass, field

PATH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "opinfo_exceptions.txt")
HEAD = re.compile(r"\[(\S+)(?:\s+(.*))?\]\s+(\S.*)")
# Groups whose operators are found by the pattern alone: what is not ours to judge, or what we refuse. Wrong values never are.
BY_PATTERN = {"type", "torch", "export", "import"}

ENDS_THE_PROCESS = "the exporter ends the process"


@dataclass
class Failure:
    stage: str
    text: str
    off: float = float("inf")  # of values that differ: by which share of the largest
    sample: str = ""

    def __str__(self):
        return f"{self.stage}: {self.text}"


# Failures whose sizes the exporter takes from memory that nobody wrote: they come and go.
UNWRITTEN = "the file declares"


@dataclass
class Group:
    head: str
    stage: str
    pattern: str  # of a failure's text; of other stages what the file's head says
    reason: str
    ops: dict = field(default_factory=dict)  # to whether each of its samples fails in this way

    def matches(self, failure):
        if self.stage == "tolerance":
            return failure.off <= float(self.pattern)
        if self.stage == "incomparable":
            differs = failure.stage in ("value", "f32", "gradient", "second") or "another function" in failure.text
            return differs and re.search(self.pattern or "", failure.sample) is not None
        return failure.stage == self.stage and re.search(self.pattern or "", failure.text) is not None


def read():
    """(comment at the head, groups)"""
    comment, groups = [], []
    with open(PATH, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            line = line.strip()
            if line.startswith("#"):
                assert not groups, f"{PATH}:{number}: comments stand at the head"
                comment.append(line)
            elif line.startswith("["):
                head = HEAD.fullmatch(line)
                assert head, f"{PATH}:{number}: expected '[STAGE PATTERN] reason', found '{line}'"
                groups.append(Group(line, *head.groups()))
            else:
                for name in line.split():
                    groups[-1].ops[name.removesuffix("~")] = not name.endswith("~")
    return comment, groups


def write(comment, groups):
    with open(PATH, "w", encoding="utf-8") as file:
        print(*comment, sep="\n", file=file)
        for group in groups:
            if group.ops:
                names = " ".join(sorted(name + "~" * (not whole) for name, whole in group.ops.items()))
                print("", group.head, textwrap.fill(names, 120, initial_indent="    ", subsequent_indent="    ",
                                                    break_on_hyphens=False, break_long_words=False), sep="\n", file=file)


class Table:
    def __init__(self):
        self.comment, self.groups = read()

    def exporter(self, name):
        return next((g.pattern for g in self.groups if g.stage == "exporter" and name in g.ops), "ts20")

    def is_always_run(self, name):
        """Of an operator by another exporter: not in a full run only."""
        return any(g.ops.get(name) for g in self.groups if g.stage == "exporter")

    def deadly(self):
        return {name for g in self.groups if g.pattern == ENDS_THE_PROCESS for name in g.ops}

    def is_left_out(self, name):
        """No sample of the operator is compared at all."""
        return any(g.ops.get(name) for g in self.groups if g.stage in BY_PATTERN)

    def group_of(self, name, failure):
        return next((g for g in self.groups if name in g.ops and g.matches(failure)), None)

    def stale(self, name, failures, whole):
        """What the table says of an operator that is not so. `failures`: of each sample that ran; `whole`: those are all."""
        for group in self.groups:
            if name not in group.ops or group.stage in ("exporter", "incomparable"):
                continue
            hits = sum(any(self.group_of(name, f) is group for f in of_sample) for of_sample in failures)
            if group.ops[name] and hits < len(failures):
                yield f"{len(failures) - hits} of {len(failures)} samples do not fail as the table says: {group.head}"
            elif hits == 0 and whole and group.pattern != UNWRITTEN:
                yield f"no sample fails as the table says: {group.head}"

    def update(self, results):
        """Makes the table tell what `results` has, operator to failures of each sample; groups with patterns take operators
        in, the others only lose them."""
        for name, samples in results.items():
            hits = [{self.index_of(name, f) for f in failures} for failures in samples]
            for index, group in enumerate(self.groups):
                if group.stage not in ("exporter", "incomparable"):
                    group.ops.pop(name, None)
                    count = sum(index in h for h in hits)
                    if count:
                        group.ops[name] = count == len(samples)
        write(self.comment, self.groups)

    def index_of(self, name, failure):
        return next((i for i, g in enumerate(self.groups)
                     if (g.stage in BY_PATTERN or name in g.ops) and g.stage != "exporter" and g.matches(failure)), None)
