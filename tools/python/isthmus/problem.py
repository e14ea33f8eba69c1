"""Problems: ops with their costs, the sizes of their outputs, and their operands."""

from __future__ import annotations

import ctypes
import dataclasses
import itertools
import json
import math
import numbers
import operator
import os
from typing import Any, Iterable, Iterator, Mapping, Sequence, SupportsIndex, Union

from . import _json_file, _library
from ._shared_library import Handle
from .errors import BadInput
from .op import KINDS, PHASES, Op

ORDERS = ("free", "phases", "fixed")
_LISTS = ("reads", "bytes", "may_reuse", "of", "overwrites")  # fields of an Op that are tuples
_MOST_BYTES = 2**62
_MOST_ALIGNMENT = 2**30
_MOST_TIME = 1e300  # sums of times stay finite
_PINNED, _RUNS_ONCE = 1, 2

ReadLike = Union[SupportsIndex, "tuple[SupportsIndex, SupportsIndex]"]


class Problem:
    """The planner's view of a graph. Ops are added in an order in which every op comes after the ops that it reads."""

    def __init__(self, name: str = "problem", *, order: str = "free", alignment: int = 64) -> None:
        """Makes a problem without ops.

        order: the orders in which ops may run for the first time. "free": any; "phases": only ops of the forward phase until all forward
            outputs are computed; "fixed": the order in which the ops are added.
        alignment: sizes are rounded up to it.
        """
        self.name = _text(name, "a problem's name")
        self._order = _one_of(ORDERS, order, "an order")
        self._alignment = _number(alignment, "the alignment", 1, _MOST_ALIGNMENT)
        self._ops: list[Op] = []
        self._outputs: tuple[tuple[int, int], ...] = ()
        self._forward_outputs: tuple[int, ...] = ()
        self._made: Handle | None = None

    def add(
        self,
        name: str,
        reads: Iterable[ReadLike] = (),
        cost: float = 0.0,
        bytes: SupportsIndex | Iterable[SupportsIndex] = 0,
        *,
        phase: str = "forward",
        pinned: bool = False,
        recomputable: bool = True,
        workspace: SupportsIndex = 0,
        view_of: SupportsIndex | None = None,
        may_reuse: Iterable[tuple[SupportsIndex, SupportsIndex]] = (),
        kind: str = "computes",
        of: ReadLike | None = None,
        transfer_time: float = 0.0,
        overwrites: Iterable[SupportsIndex] = (),
    ) -> int:
        """Adds an op and returns its number.

        name: for messages.
        reads: ops that were added before, each as its number, or as a pair of its number and the index of an output.
        cost: microseconds.
        bytes: the size of its output; a list for an op with several outputs.
        phase: "forward", "backward" or "update".
        pinned: it is always live and never runs, like inputs and parameters, and does not count in the peak.
        recomputable: it may run more than once.
        workspace: bytes that are live while it runs.
        view_of: the index of the read whose storage its result shares; it then has no bytes of its own.
        may_reuse: pairs of an output and a read: if this is the last read of that storage, the output may take over its bytes.
        overwrites: indices of reads of pinned storages that the op overwrites, as an optimizer's update does; the outputs that take their
            place have 0 bytes. Such an op runs once, after all other readers of the storages that it overwrites.

        Some ops are alternatives: other ways to make the outputs of an op. No schedule has to run them, and only alternatives may read
        them.
        of: the op for which this is an alternative, or a pair of that op and the index of an output; the sizes must be equal.
        kind: what the op does. A copy to the host's memory and back is four ops: "starts_offload" reads the storage to copy;
            "waits_offload" reads that op; "starts_prefetch" reads the wait and has the bytes of the storage; "waits_prefetch" reads that
            start, and is `of` the op that made the storage.
        transfer_time: of starts, microseconds.
        """
        sizes = tuple(_sizes(bytes, f"op {name!r}"))
        checked = tuple(self._read(read, f"op {name!r}") for read in reads)
        op = Op(
            name=_text(name, "an op's name"),
            reads=checked,
            cost=_cost(cost, name),
            bytes=sizes,
            phase=_one_of(PHASES, phase, f"the phase of op {name!r}"),
            pinned=bool(pinned),
            recomputable=bool(recomputable),
            workspace=_number(workspace, f"the workspace of op {name!r}", 0, _MOST_BYTES),
            view_of=None if view_of is None else _number(view_of, f"view_of of op {name!r}", 0, len(checked) - 1),
            may_reuse=tuple(_reuse(pair, len(sizes), len(checked), name) for pair in may_reuse),
            kind=_one_of(KINDS, kind, f"the kind of op {name!r}"),
            of=None if of is None else self._form_of(of, f"op {name!r}"),
            transfer_time=_cost(transfer_time, name),
            overwrites=tuple(_number(read, f"overwrites of op {name!r}", 0, len(checked) - 1) for read in overwrites),
        )
        if op.view_of is not None and op.bytes != (0,):
            raise BadInput(f"op {name!r} is a view, which has no bytes of its own; got {bytes}")
        if op.view_of is not None and op.pinned:
            raise BadInput(f"op {name!r}: a view cannot be pinned; what it is a view of can")
        if op.pinned and len(op.bytes) != 1:
            raise BadInput(f"op {name!r}: what is pinned has one output, got {len(op.bytes)}")
        if not op.bytes:
            raise BadInput(f"op {name!r} has no output; where nothing is made, that is one of 0 bytes")
        return self.append(op)

    def append(self, op: Op) -> int:
        """Adds an op of a problem whose earlier ops are the same as here, and returns its number."""
        self._ops.append(op)
        self._made = None
        return len(self._ops) - 1

    @property
    def order(self) -> str:
        return self._order

    @property
    def alignment(self) -> int:
        return self._alignment

    @property
    def outputs(self) -> tuple[tuple[int, int], ...]:
        """The outputs that must be live at the end: ops, or pairs of an op and the index of an output. Assign the whole list."""
        return self._outputs

    @outputs.setter
    def outputs(self, reads: Iterable[ReadLike]) -> None:
        self._outputs = tuple(self._read(read, "the list of outputs") for read in reads)
        self._made = None

    @property
    def forward_outputs(self) -> tuple[int, ...]:
        """With order "phases": ops of the forward phase that must run before any other phase, beside those among the outputs."""
        return self._forward_outputs

    @forward_outputs.setter
    def forward_outputs(self, ops: Iterable[SupportsIndex]) -> None:
        numbers = tuple(self._read(op, "the list of forward outputs")[0] for op in ops)
        for number in numbers:
            if self._ops[number].phase != "forward":
                raise BadInput(f"op {number}, {self._ops[number].name!r}, is no op of the forward phase, and so no forward output")
        self._forward_outputs = numbers
        self._made = None

    def __len__(self) -> int:
        return len(self._ops)

    def __getitem__(self, number: SupportsIndex) -> Op:
        return self._ops[operator.index(number)]

    def __iter__(self) -> Iterator[Op]:
        return iter(self._ops)

    def __repr__(self) -> str:
        return f"<isthmus.Problem {self.name!r}: {len(self._ops)} ops>"

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_made": None}

    def to_json(self) -> str:
        """Returns the problem in the joint-graph format. An op there reads all outputs of another op. Where an op here reads some of
        several outputs, it does so through a view, a node of its own, and the nodes' numbers then differ from the ops'."""
        return _library.text("problem_print", self._handle(), _library.JOINT_GRAPH).decode()

    @classmethod
    def from_json(cls, text: str | bytes) -> Problem:
        """Parses the formats joint-graph/1 and joint-graph/2."""
        if isinstance(text, str):
            text = text.encode("utf-8", "surrogatepass")
        if not isinstance(text, bytes):
            raise TypeError(f"a problem's text is a string or bytes, got {type(text).__name__}")
        made = _library.make("problem", "problem_from_json", text, len(text))
        content = json.loads(_library.text("problem_print", made, _library.OPS))
        problem = cls(content["name"], order=content["order"], alignment=content["alignment"])
        lists = {name: map(_tuples, each) if name in _LISTS else each for name, each in content["ops"].items()}
        problem._ops = [Op(*op) for op in zip(*(lists[field.name] for field in dataclasses.fields(Op)))]
        problem._outputs, problem._forward_outputs = _tuples(content["outputs"]), _tuples(content["forward_outputs"])
        problem._made = made
        return problem

    @classmethod
    def from_dict(cls, graph: Mapping[str, Any]) -> Problem:
        """Makes a problem of the parsed JSON of a joint-graph file."""
        try:
            text = json.dumps(dict(graph))
        except TypeError as error:
            raise TypeError(f"the problem is not what a joint-graph file holds: {error}") from None
        return cls.from_json(text)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Problem:
        """Reads a joint-graph file, which may be gzipped."""
        return cls.from_json(_json_file.read(os.fspath(path)))

    # Checks a read and returns it as a pair.
    def _read(self, read: ReadLike, reader: str) -> tuple[int, int]:
        try:
            op, output = map(operator.index, read if isinstance(read, tuple) else (read, 0))
        except (TypeError, ValueError):
            raise TypeError(f"{reader}: a read is an op's number, or a pair of it and of an output's; got {read!r}") from None
        if not 0 <= op < len(self._ops):
            raise BadInput(f"{reader} reads op {op}, which does not come before it: there are {len(self._ops)}")
        made = self._ops[op]
        # The wait for a prefetch has the outputs of its start.
        outputs = len((self._ops[made.reads[0][0]] if made.kind == "waits_prefetch" and made.reads else made).bytes)
        if not 0 <= output < outputs:
            raise BadInput(f"{reader} reads output {output} of {made.name!r}, which has {outputs}")
        return op, output

    # Checks `of` and returns an op, or an op and one of its outputs.
    def _form_of(self, of: ReadLike, form: str) -> int | tuple[int, int]:
        made = self._read(of, form)
        return made if isinstance(of, tuple) else made[0]

    # The library's problem, made on first use.
    def _handle(self) -> Handle:
        made = self._made
        if made is None:
            made = self._made = _made(self)
        return made


def _text(text: Any, what: str) -> str:
    if not isinstance(text, str):
        raise TypeError(f"{what} is a string, got {type(text).__name__}")
    if "\0" in text:
        raise BadInput(f"{what} holds a zero byte: {text!r}")
    return text


def _number(number: Any, what: str, least: int, most: int) -> int:
    try:
        value = operator.index(number)
    except TypeError:
        raise TypeError(f"{what} is a whole number, got {type(number).__name__}") from None
    if not least <= value <= most:
        raise BadInput(f"{what} is to be from {least} to {most}, got {value}")
    return value


def _sizes(bytes: Any, what: str) -> Iterator[int]:
    many: Sequence[Any] = [bytes] if hasattr(bytes, "__index__") else bytes
    if isinstance(many, (str, float)) or not hasattr(many, "__iter__"):
        raise TypeError(f"the bytes of {what} are a whole number or a list of them, got {type(bytes).__name__}")
    return (_number(each, f"a size in the bytes of {what}", 0, _MOST_BYTES) for each in many)


def _cost(cost: Any, name: str) -> float:
    if not isinstance(cost, numbers.Real):
        raise TypeError(f"the cost of op {name!r} is a number of microseconds, got {type(cost).__name__}")
    try:
        time = float(cost)  # type: ignore[arg-type]
    except OverflowError:
        time = math.inf
    if not 0 <= time < _MOST_TIME:
        raise BadInput(f"the cost of op {name!r} is a number of microseconds from 0 to {_MOST_TIME:g}, got {time}")
    return time


def _one_of(all: tuple[str, ...], one: Any, what: str) -> str:
    if one not in all:
        raise BadInput(f"{what} is one of {', '.join(all)}; got {one!r}")
    return str(one)


def _reuse(pair: Any, outputs: int, reads: int, name: str) -> tuple[int, int]:
    if not isinstance(pair, (tuple, list)) or len(pair) != 2:
        raise TypeError(f"may_reuse of op {name!r} is a list of pairs of an output and a read, got {pair!r}")
    return (
        _number(pair[0], f"the output in may_reuse of op {name!r}", 0, outputs - 1),
        _number(pair[1], f"the read in may_reuse of op {name!r}", 0, reads - 1),
    )


def _tuples(value: Any) -> Any:
    return tuple([_tuples(each) for each in value]) if isinstance(value, list) else value


def _begins(lists: Iterable[Sequence[Any]]) -> list[int]:
    return list(itertools.accumulate(map(len, lists), initial=0))


def _made(problem: Problem) -> Handle:
    ops = list(problem)

    def array(kind: Any, items: Sequence[Any]) -> Any:
        return (kind * max(1, len(items)))(*items)

    reads = [read for op in ops for read in op.reads]
    donations = [pair for op in ops for pair in op.may_reuse]
    forms = [(op.of, _library.NONE) if isinstance(op.of, int) else op.of or (_library.NONE, _library.NONE) for op in ops]
    arrays = _library.Arrays(
        size=ctypes.sizeof(_library.Arrays),
        num_ops=len(ops),
        cost=array(ctypes.c_double, [op.cost for op in ops]),
        workspace=array(ctypes.c_int64, [op.workspace for op in ops]),
        phase=array(ctypes.c_uint8, [PHASES.index(op.phase) for op in ops]),
        flags=array(ctypes.c_uint8, [_PINNED * op.pinned | _RUNS_ONCE * (not op.recomputable) for op in ops]),
        names=array(ctypes.c_char_p, [op.name.encode("utf-8", "replace") for op in ops]),
        output_begin=array(ctypes.c_size_t, _begins(op.bytes for op in ops)),
        output_bytes=array(ctypes.c_int64, [size for op in ops for size in op.bytes]),
        input_begin=array(ctypes.c_size_t, _begins(op.reads for op in ops)),
        input_op=array(ctypes.c_uint32, [op for op, _ in reads]),
        input_output=array(ctypes.c_uint32, [output for _, output in reads]),
        view_of=array(ctypes.c_int32, [-1 if op.view_of is None else op.view_of for op in ops]),
        num_outputs=len(problem.outputs),
        output_op=array(ctypes.c_uint32, [op for op, _ in problem.outputs]),
        output_output=array(ctypes.c_uint32, [output for _, output in problem.outputs]),
        order=ORDERS.index(problem.order),
        num_forward_outputs=len(problem.forward_outputs),
        forward_outputs=array(ctypes.c_uint32, problem.forward_outputs),
        alignment=problem.alignment,
        donation_begin=array(ctypes.c_size_t, _begins(op.may_reuse for op in ops)),
        donation_output=array(ctypes.c_uint32, [output for output, _ in donations]),
        donation_input=array(ctypes.c_uint32, [read for _, read in donations]),
        kind=array(ctypes.c_uint8, [KINDS.index(op.kind) for op in ops]),
        of_op=array(ctypes.c_uint32, [op for op, _ in forms]),
        of_output=array(ctypes.c_uint32, [output for _, output in forms]),
        transfer_time=array(ctypes.c_double, [op.transfer_time for op in ops]),
        overwrite_begin=array(ctypes.c_size_t, _begins(op.overwrites for op in ops)),
        overwrite_input=array(ctypes.c_uint32, [read for op in ops for read in op.overwrites]),
        name=problem.name.encode("utf-8", "replace"),
    )
    return _library.make("problem", "problem_from_arrays", arrays)
