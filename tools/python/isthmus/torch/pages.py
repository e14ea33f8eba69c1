"""Writes pages that show plans: `view`, and `save` of an explanation. docs/view.md describes the page."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import Any

import torch
from torch import fx

from ..errors import BadInput
from ..page import Labels, page
from ..planning import Plan
from .graph.joint import CHUNK, Joint
from .graph.places import module_of
from .graph.program import as_it_runs
from .graph.sizes import sized, tensors_in
from .plans.learned import Made

_FRAME = re.compile(r'File "([^"]*)", line (\d+), in (\S+)')
_OF_TORCH = os.path.dirname(os.path.abspath(torch.__file__)) + os.sep
_SHORT = {"float": "f", "int": "i", "uint": "u", "complex": "c"}


def page_of(made: Made, title: str, snapshot: str | os.PathLike[str] | None = None, prices: Sequence[tuple[int, float]] = ()) -> bytes:
    """Returns the page of a graph's plan, and beside it the step as the program runs it by itself; or a snapshot, if the path of one is given. prices:
    peaks of other plans, and what they add, as a share of the step's time."""
    joint, report = made.joint, made.report
    return page(
        joint.problem,
        made.plan,
        labels_of(joint),
        title=title,
        target=f"PyTorch {torch.__version__}",
        budget_bytes=report.budget_bytes,
        reserved_bytes=joint.reserved_bytes,
        beside=Plan.from_schedule(joint.problem, as_it_runs(joint)),
        beside_name="as the program runs it" if snapshot is None else os.fspath(snapshot),
        snapshot=None if snapshot is None else _content(snapshot),
        prices=[(peak, (1 + added) * joint.cost) for peak, added in prices],
    )


def _content(path: str | os.PathLike[str]) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise BadInput(f"cannot read {os.fspath(path)!r}: {error.strerror}") from error


def checked(path: str | os.PathLike[str]) -> str:
    """Returns the path of a page. Raises BadInput if its name is not that of a page."""
    text = os.fspath(path)
    if not isinstance(text, str) or not text.endswith(".html"):
        raise BadInput(f"a page is written to a file whose name ends in .html, got {path!r}")
    return text


def write(path: str, content: bytes) -> None:
    """Writes a file at once: a reader sees the old one or the whole new one."""
    part = f"{path}.part{os.getpid()}"
    try:
        with open(part, "wb") as file:
            file.write(content)
        os.replace(part, path)
    except OSError as error:
        if os.path.exists(part):
            os.remove(part)
        raise BadInput(f"cannot write {path!r}: {error.strerror}") from error


def labels_of(joint: Joint) -> Labels:
    nodes = [step.nodes[0] if step.nodes else None for step in joint.steps]
    for node, reads in joint.where.items():
        if len(reads) == 1 and joint.problem[reads[0][0]].pinned:
            nodes[reads[0][0]] = nodes[reads[0][0]] or node
    return Labels(
        names=[_name(node, op.name) for node, op in zip(nodes, joint.problem)],
        ops=["input" if op.pinned or node is None else str(node.target).removesuffix(".default") for node, op in zip(nodes, joint.problem)],
        sources=["" if node is None else source_of(node) for node in nodes],
        types=_types(joint),
        chunks=[any(n.meta.get(CHUNK) for n in step.nodes) for step in joint.steps],
    )


def _name(node: fx.Node | None, name: str) -> str:
    module = "" if node is None else module_of(node)
    return f"{module}.{name}" if module else name


def source_of(node: fx.Node) -> str:
    """Returns the innermost line of the program that the op comes from, such as "model.py:31 in forward"; "" if unknown."""
    frames = _FRAME.findall(node.meta.get("stack_trace") or "")
    own = [frame for frame in frames if not frame[0].startswith(_OF_TORCH)] or frames
    if not own:
        return ""
    file, line, function = own[-1]
    return f"{os.path.basename(file)}:{line} in {function}"


def _types(joint: Joint) -> list[list[str]]:
    types = [[""] * len(op.bytes) for op in joint.problem]
    for node, reads in joint.where.items():
        for tensor, (op, output) in zip(tensors_in(node.meta.get("val")), reads):
            if output < len(types[op]) and not types[op][output]:
                types[op][output] = _type(tensor)
    return types


def _type(tensor: Any) -> str:
    dtype = re.sub(r"^[a-z]+(?=\d)", lambda m: _SHORT.get(m[0], m[0]), str(tensor.dtype).removeprefix("torch."))
    return f"{dtype}[{', '.join(str(sized(s)) for s in tensor.shape)}]"
