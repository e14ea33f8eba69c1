"""The list of what the OpInfo test leaves out: opinfo_exceptions.txt, whose head describes its form."""

import os
import re
import textwrap
from dataclasses import dataclass, field

PATH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "opinfo_exceptions.txt")
HEAD = re.compile(r"\[(\S+)(?:\s+(.*))?\]\s+(\S.*)")
# The stages whose groups take in any operator that matches the pattern: failures of PyTorch or the exporter, and
# operators that we refuse. Wrong values are never among them.
BY_PATTERN = {"type", "torch", "export", "import"}

ENDS_THE_PROCESS = "the exporter ends the process"


@dataclass
class Failure:
    stage: str
    text: str
    off: float = float("inf")  # for values that differ: the error as a share of the largest
    sample: str = ""

    def __str__(self):
        return f"{self.stage}: {self.text}"


# The exporter writes sizes from uninitialized memory into the file, so these failures are not reproducible.
UNWRITTEN = "the file declares"


@dataclass
class Group:
    head: str
    stage: str
    pattern: str  # of the failure's text; for other stages as the file's head says
    reason: str
    ops: dict = field(default_factory=dict)  # by name: whether each sample of the operator fails in this way

    def matches(self, failure):
        if self.stage == "tolerance":
            return failure.off <= float(self.pattern)
        if self.stage == "incomparable":
            differs = failure.stage in ("value", "f32", "gradient", "second") or "another function" in failure.text
            return differs and re.search(self.pattern or "", failure.sample) is not None
        return failure.stage == self.stage and re.search(self.pattern or "", failure.text) is not None


def read():
    """Returns (comment at the head, groups)."""
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
        """Returns whether the operator, which needs another exporter, is tested in every run and not only in full
        runs."""
        return any(g.ops.get(name) for g in self.groups if g.stage == "exporter")

    def deadly(self):
        return {name for g in self.groups if g.pattern == ENDS_THE_PROCESS for name in g.ops}

    def is_left_out(self, name):
        """Returns whether no sample of the operator is compared."""
        return any(g.ops.get(name) for g in self.groups if g.stage in BY_PATTERN)

    def group_of(self, name, failure):
        return next((g for g in self.groups if name in g.ops and g.matches(failure)), None)

    def stale(self, name, failures, whole):
        """Yields entries of the list that are wrong for an operator. `failures` has a list for each sample that ran;
        `whole` says whether all samples ran."""
        for group in self.groups:
            if name not in group.ops or group.stage in ("exporter", "incomparable"):
                continue
            hits = sum(any(self.group_of(name, f) is group for f in of_sample) for of_sample in failures)
            if group.ops[name] and hits < len(failures):
                yield f"{len(failures) - hits} of {len(failures)} samples do not fail as the table says: {group.head}"
            elif hits == 0 and whole and group.pattern != UNWRITTEN:
                yield f"no sample fails as the table says: {group.head}"

    def update(self, results):
        """Updates the list from `results`, which maps operators to the failures of each sample. Groups with a stage in
        BY_PATTERN can gain operators; other groups can only lose them."""
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
