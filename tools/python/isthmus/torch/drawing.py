"""Draws a planned graph for Graphviz, as `isthmus dot` draws a graph file.

The forward runs down on the left and the backward up beside it, each op of it at the height of what it reads. What runs again, and copies to the
host's memory and back, have a frame of their own. What the forward keeps for the backward is green.
"""

from __future__ import annotations

import html
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from .amounts import in_mib
from .graph.joint import Joint
from .graph.places import module_of

_READABLE = 60
"""With more boxes than these, a picture is hard to read."""
_OUTSIDE = "outside of modules"


@dataclass(frozen=True)
class _Style:
    title: str
    fill: str
    line: str


_STYLES = {
    "forward": _Style("forward", "#DDEAF8", "#3F74AE"),
    "kept": _Style("kept for the backward", "#BFE6B5", "#2F7D22"),
    "recomputed": _Style("recomputed", "#FCE3C0", "#B9771E"),
    "copied": _Style("copied to the host's memory or back", "#E3DDF3", "#6B55A8"),
    "backward": _Style("backward", "#F8DFDA", "#B4564A"),
}
_COLUMNS = {"forward": "forward", "backward": "backward", "again": "recomputed"}
"""The columns from left to right, and the style of each one's frame."""
_COLUMN_OF = {"forward": "forward", "kept": "forward", "recomputed": "again", "copied": "again", "backward": "backward"}


@dataclass
class _Box:
    """A run of an op, or the runs of a module in a column."""

    role: str
    name: str
    module: str = ""
    """The path of the module that runs it; "" if that is unknown, and for a module itself."""
    bytes: int = 0
    us: float = 0.0
    runs: Counter[str] = field(default_factory=Counter)
    """By the names of ops, how many runs it stands for."""
    inputs: list[str] = field(default_factory=list)
    """The parameters and inputs of the graph that it reads."""

    def label(self, *, is_folded: bool) -> str:
        small = [self.module] if self.module else []
        if is_folded:
            small.append(", ".join(f"{n} {name}" for name, n in self.runs.most_common(3)) + (" ..." if len(self.runs) > 3 else ""))
        elif self.inputs:
            small.append(f"of {', '.join(self.inputs)}")
        small.append(f"{in_mib(self.bytes)}, {self.us / 1e3:.3f} ms")
        lines = [f"<b>{html.escape(self.name)}</b>", *(f'<font point-size="9" color="#4A4A4A">{html.escape(line)}</font>' for line in small)]
        return "<br/>".join(lines)


class _Runs:
    """The runs of a schedule as boxes, and which reads which."""

    def __init__(self, joint: Joint, schedule: Sequence[int]) -> None:
        self._joint, problem = joint, joint.problem
        self.boxes: list[_Box] = []
        self.reads: dict[tuple[int, int], None] = {}
        latest: dict[int, int] = {}
        for i in schedule:
            op = problem[i]
            role = "backward" if op.phase != "forward" else "recomputed" if i in latest else "forward"
            made_by = [latest[r] for r in dict.fromkeys(r for r, _ in op.reads) if r in latest]
            at = self._add(i, "copied" if op.is_optional and op.kind != "computes" else role, made_by)
            for before in made_by:
                self.reads[before, at] = None
                if role != "forward" and self.boxes[before].role == "forward":
                    self.boxes[before].role = "kept"
            latest[i] = at

    def _add(self, i: int, role: str, made_by: Sequence[int]) -> int:
        """made_by: the runs whose results it reads."""
        op, nodes = self._joint.problem[i], self._joint.steps[i].nodes
        # Tracing knows no module of some ops, such as sums of gradients. They are drawn with what they read.
        module = module_of(nodes[0]) if nodes else ""
        near = [k for k in made_by if self.boxes[k].module and _COLUMN_OF[self.boxes[k].role] == _COLUMN_OF[role]]
        module = module or (self.boxes[max(near)].module if near else "")
        name = str(nodes[0].target).removesuffix(".default") if nodes else op.name
        inputs = dict.fromkeys(self._joint.problem[r].name for r, _ in op.reads if self._joint.problem[r].pinned)
        self.boxes.append(_Box(role, name, module, sum(op.bytes), op.cost, Counter({name: 1}), list(inputs)))
        return len(self.boxes) - 1


def dot_of(joint: Joint, schedule: Sequence[int], fold: int | None = None) -> str:
    """Returns the picture in the DOT language. fold: how many names of a module's path tell modules apart, each of which is one box in each column;
    0: every run of an op is a box; None: 0 if that is readable, and otherwise as many as are."""
    runs = _Runs(joint, schedule)
    if fold is None:
        deepest = max((box.module.count(".") + 1 for box in runs.boxes), default=1)
        fold = 0 if len(runs.boxes) <= _READABLE else next((d for d in range(deepest, 1, -1) if len(set(_keys(runs, d))) <= _READABLE), 1)
    boxes, reads = (runs.boxes, list(runs.reads)) if fold == 0 else _folded(runs, fold)
    return "\n".join(_lines(boxes, reads, is_folded=fold > 0)) + "\n"


def _keys(runs: _Runs, depth: int) -> list[tuple[str, str]]:
    """Returns, by run, the box that it is in: its column and its module."""
    return [(_COLUMN_OF[box.role], ".".join(box.module.split(".")[:depth]) or _OUTSIDE) for box in runs.boxes]


def _folded(runs: _Runs, depth: int) -> tuple[list[_Box], list[tuple[int, int]]]:
    boxes: dict[tuple[str, str], _Box] = {}
    keys = _keys(runs, depth)
    for box, key in zip(runs.boxes, keys, strict=True):
        made = boxes.setdefault(key, _Box(box.role, key[1]))
        made.role = box.role if box.role in ("kept", "copied") else made.role
        made.bytes += box.bytes
        made.us += box.us
        made.runs += box.runs
    number = {key: k for k, key in enumerate(boxes)}
    return list(boxes.values()), list(dict.fromkeys((number[keys[a]], number[keys[b]]) for a, b in runs.reads if keys[a] != keys[b]))


def _lines(boxes: Sequence[_Box], reads: Sequence[tuple[int, int]], *, is_folded: bool) -> Iterator[str]:
    yield "digraph step {"
    yield '  graph [rankdir=TB, newrank=true, fontname="Helvetica", fontsize=16, nodesep=0.25, ranksep=0.3, outputorder=edgesfirst]'
    yield '  node [shape=box, style="filled,rounded", fontname="Helvetica", fontsize=11, margin="0.1,0.04", height=0.3]'
    yield '  edge [color="#55606A", arrowsize=0.6]'
    used = {box.role for box in boxes}
    framed = [column for column in _COLUMNS if any(_COLUMN_OF[role] == column for role in used)]
    for column in framed:
        style = _STYLES[_COLUMNS[column]]
        title = "recomputed and copied" if column == "again" and "copied" in used else style.title
        yield f'  subgraph cluster_{column} {{\n    label="{title}"; color="{style.line}"; fontcolor="{style.line}"; style="rounded"; margin=12;'
        yield f'    column_{column} [style=invis, shape=point, width=0.01, height=0.01, label=""]'
        for k, box in enumerate(boxes):
            if _COLUMN_OF[box.role] == column:
                yield f"    {_node(k, box, is_folded)}"
        yield "  }"
    if len(framed) > 1:
        yield f"  {{ rank=source; {' -> '.join(f'column_{column}' for column in framed)} [style=invis] }}"
    for a, b in reads:
        if boxes[a].role == boxes[b].role == "backward":
            yield f"  {b} -> {a} [dir=back]"  # upwards
        else:
            yield f"  {a} -> {b}{_across(boxes[a], boxes[b])}"
    yield f"  legend [shape=plain, style=\"\", label=<{_legend(used)}>]"
    yield "}"


def _across(a: _Box, b: _Box) -> str:
    """Returns the attributes of an arrow. One to another column may be level. Those to what runs again move nothing, as they would turn columns
    round."""
    columns = _COLUMN_OF[a.role], _COLUMN_OF[b.role]
    return "" if columns[0] == columns[1] else " [constraint=false]" if columns[1] == "again" else " [minlen=0]"


def _node(k: int, box: _Box, is_folded: bool) -> str:
    style = _STYLES[box.role]
    return f'{k} [fillcolor="{style.fill}", color="{style.line}", label=<{box.label(is_folded=is_folded)}>]'


def _legend(used: set[str]) -> str:
    box = 'td border="1" width="28" height="12" style="rounded"'
    rows = (
        f'<tr><{box} bgcolor="{style.fill}" color="{style.line}"></td><td align="left">{style.title}</td></tr>'
        for role, style in _STYLES.items()
        if role in used
    )
    return f'<table border="0" cellborder="0" cellspacing="3">{"".join(rows)}</table>'
