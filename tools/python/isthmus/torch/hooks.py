"""Every private part of PyTorch that the package touches, and the check that this PyTorch has been tested.

Nothing else in the package names a private module, but `inductor`. A PyTorch that was not tested is refused: a hook that changed its
meaning would give wrong gradients, not an error.
"""

from __future__ import annotations

import bisect
import concurrent.futures
import contextlib
import copy
import gc
import importlib.metadata
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import torch
from torch import fx

from ..errors import Unsupported

TESTED = ("2.15",)
Result = TypeVar("Result")

if not any(torch.__version__.startswith(version + ".") for version in TESTED):
    raise Unsupported(
        f"isthmus.torch was tested with PyTorch {', '.join(TESTED)} and found {torch.__version__}: "
        f"install PyTorch {TESTED[-1]}, or a later version of isthmus"
    )

from torch.autograd import ProfilerConfig, ProfilerState, _disable_profiler_legacy, _enable_profiler_legacy  # noqa: E402
from torch._dynamo.backends.common import aot_autograd  # noqa: E402
from torch._guards import CompileContext, TracingContext, tracing  # noqa: E402
from torch._dynamo.backends.registry import _COMPILER_FNS  # noqa: E402
from torch._functorch import config as functorch_config  # noqa: E402
from torch._functorch.compile_utils import fx_graph_cse  # noqa: E402
import torch._inductor.pattern_matcher  # noqa: E402,F401  (fx_graph_cse's, which would load it within the first planning)
from torch._higher_order_ops.flex_gemm import _PRESERVE_FLEX_GEMM_GEMM_OP  # noqa: E402
from torch._functorch.partitioners import (  # noqa: E402
    _extract_fwd_bwd_modules,
    _extract_fwd_bwd_outputs,
    _is_primal,
    _is_tangent,
    is_rng_op,
    is_sym_node,
    min_cut_rematerialization_partition,
)
from torch._inductor.custom_graph_pass import CustomPartitionerFn  # noqa: E402
from torch._inductor.fx_passes.fusion_regions import is_fusible_node as is_fusible  # noqa: E402
from torch._prims.rng_prims import run_and_save_rng_state, run_with_rng_state  # noqa: E402
from torch._subclasses.fake_tensor import FakeTensor, unset_fake_temporarily  # noqa: E402
from torch.fx._lazy_graph_module import _LazyGraphModule, _use_lazy_graph_module  # noqa: E402
from torch.multiprocessing.reductions import StorageWeakRef  # noqa: E402
from torch.utils import _pytree as pytree  # noqa: E402
from torch.utils._ordered_set import OrderedSet  # noqa: E402
from torch.utils._python_dispatch import _disable_current_modes  # noqa: E402
from torch.utils.checkpoint import CheckpointPolicy  # noqa: E402
from torch.utils.flop_counter import flop_registry  # noqa: E402

__all__ = [
    "Allocations",
    "CheckpointPolicy",
    "CustomPartitionerFn",
    "Region",
    "StorageWeakRef",
    "allocations_on_cpu",
    "aot_eager",
    "break_after",
    "buckets_follow",
    "compilation",
    "compile_with_inductor",
    "flop_registry",
    "hints_of",
    "inputs_of",
    "is_fusible",
    "is_profiling",
    "is_rng_op",
    "is_sym_node",
    "is_tried_out",
    "joined",
    "keep_apart",
    "keep_in_memory",
    "kept_by",
    "lays_out_convolutions",
    "leaf_of",
    "min_cut",
    "node_of_call",
    "nodes_between",
    "outputs_of",
    "outside_of_tracing",
    "register",
    "run_and_save_rng_state",
    "run_with_rng_state",
    "simplified",
    "split",
    "state_like",
    "storage_id",
    "tangents",
    "traced",
    "unprofiled",
    "without_code",
]

min_cut = min_cut_rematerialization_partition


def outputs_of(gm: fx.GraphModule, num_fwd_outputs: int) -> tuple[list[Any], list[Any]]:
    """What the forward and the backward of a joint graph return: nodes, or constants such as None."""
    forward, backward, _, _ = _extract_fwd_bwd_outputs(gm, num_fwd_outputs=num_fwd_outputs)
    return list(forward), list(backward)


def inputs_of(graph: fx.Graph) -> list[fx.Node]:
    """What the forward of a joint graph is called with, in this order."""
    return [n for n in graph.nodes if _is_primal(n)]


def tangents(graph: fx.Graph) -> list[fx.Node]:
    return [n for n in graph.nodes if _is_tangent(n)]


def storage_id(value: torch.Tensor) -> int:
    """Equal for tensors that share a storage, as long as both live."""
    return value.untyped_storage()._cdata


def simplified(gm: fx.GraphModule, num_fwd_outputs: int) -> fx.GraphModule:
    """The joint graph without what is dead and what is computed twice, as PyTorch's own partitioner makes it before it begins."""
    gm.graph.eliminate_dead_code()
    if not functorch_config.cse:
        return without_code(gm, gm.graph)
    # A value that the backward needs is never merged with one that only the forward does, so that it is not saved for nothing.
    _, outputs = outputs_of(gm, num_fwd_outputs)
    needed: set[fx.Node] = set()
    stack = [o for o in outputs if isinstance(o, fx.Node)]
    while stack:
        node = stack.pop()
        if node not in needed:
            needed.add(node)
            stack.extend(node.all_input_nodes)
    return without_code(gm, fx_graph_cse(gm.graph, extra_node_key=lambda n: n in needed))


def without_code(gm: fx.GraphModule, graph: fx.Graph) -> fx.GraphModule:
    """A module of a joint graph, which is cut and never run: making its code takes as long as planning a small one. Who asks for the code
    gets it."""
    return _LazyGraphModule(gm, graph)


def joined(
    gm: fx.GraphModule, forward: fx.GraphModule, backward: fx.GraphModule, num_fwd_outputs: int, *, stays: Callable[[fx.Node], bool]
) -> fx.GraphModule:
    """The joint graph that runs one module after the other. What the backward computes again is there a second time, with storages of its
    own. stays: which nodes of the backward are not to run in the forward, whatever they read."""
    graph = fx.Graph()
    env: dict[fx.Node, fx.Node] = {}

    def copy(node: fx.Node) -> None:
        env[node] = graph.node_copy(node, lambda a: env[a])
        env[node].meta = dict(node.meta)

    outputs = next(n for n in forward.graph.nodes if n.op == "output").args[0]
    saved = {a.name: a for a in outputs[num_fwd_outputs:] if isinstance(a, fx.Node)}
    placeholders = [n for n in backward.graph.nodes if n.op == "placeholder"]
    for node in [*forward.graph.nodes, *backward.graph.nodes]:
        if node.op == "placeholder" and (node.graph is forward.graph or node.name not in saved):
            copy(node)
    for node in forward.graph.nodes:
        if node.op not in ("placeholder", "output"):
            copy(node)
    for node in placeholders:
        if node.name in saved:
            env[node] = env[saved[node.name]]
    storages = _Storages(placeholders)
    computed = {n.name for n in forward.graph.nodes if n.op == "call_function"}
    for node in backward.graph.nodes:
        if node.op not in ("placeholder", "output"):
            copy(node)
            if "val" in node.meta:
                env[node].meta["val"] = storages.own(node.meta["val"], is_again=node.name in computed)
            if stays(node):
                env[node].meta["partitioner_tag"] = "must_be_in_backward"
    gradients = next(n for n in backward.graph.nodes if n.op == "output").args[0]
    old = next(n for n in gm.graph.nodes if n.op == "output")
    results = fx.node.map_arg((tuple(outputs[:num_fwd_outputs]) + tuple(gradients),), lambda a: env[a])
    graph.output(*results).meta = dict(old.meta)
    graph.lint()
    return without_code(gm, graph)


class _Storages:
    """Of fake tensors in a backward: what it computes again does not lie where the forward has put it."""

    def __init__(self, given: Sequence[fx.Node]) -> None:
        """given: what the backward is called with, which stays where it is."""
        values = [t for n in given for t in pytree.tree_leaves(n.meta.get("val")) if isinstance(t, torch.Tensor)]
        self._given = set(map(storage_id, values))
        self._own: dict[int, torch.UntypedStorage] = {}

    def own(self, value: Any, *, is_again: bool) -> Any:
        """The value in the storages of the backward. is_again: the forward has computed it too."""
        return pytree.tree_map_only(torch.Tensor, lambda t: self._moved(t, is_again), value)

    def _moved(self, t: torch.Tensor, is_again: bool) -> torch.Tensor:
        key = storage_id(t)
        if key in self._given or not (is_again or key in self._own) or not isinstance(t, FakeTensor):
            return t
        with t.fake_mode:
            if key not in self._own:
                self._own[key] = torch.empty(t.untyped_storage().nbytes(), dtype=torch.uint8, device=t.device).untyped_storage()
            made = torch.empty(0, dtype=t.dtype, device=t.device)
            return made.set_(self._own[key], t.storage_offset(), t.size(), t.stride())  # type: ignore[call-overload]


def split(
    gm: fx.GraphModule,
    graph: fx.Graph,
    saved: Sequence[fx.Node],
    *,
    num_fwd_outputs: int,
    static_lifetime_input_indices: Sequence[int] | None,
) -> tuple[fx.GraphModule, fx.GraphModule]:
    """Forward and backward of a joint graph whose nodes are tagged with the module that they belong to."""
    static = set(static_lifetime_input_indices or ())
    primals = [n for n in graph.nodes if _is_primal(n)]
    with _use_lazy_graph_module(True):  # who compiles the two makes their code, if there is to be any
        return _extract_fwd_bwd_modules(
            without_code(gm, graph),
            [n for n in saved if not is_sym_node(n)],
            saved_sym_nodes=[n for n in saved if is_sym_node(n)],
            saved_opaque_nodes=[],
            num_fwd_outputs=num_fwd_outputs,
            static_lifetime_input_nodes=OrderedSet(p for i, p in enumerate(primals) if i in static),
        )


def keep_in_memory(node: fx.Node) -> None:
    """Inductor, which would make a node part of whatever reads it and keep its operands until then, writes its result where it stands."""
    node.meta["inductor_realize_to_strides"] = True


def keep_apart(node: fx.Node) -> None:
    """Inductor does not make one op of a product and of a sum that reads it."""
    if node.target is torch.ops.aten.mm.default:
        node.meta[_PRESERVE_FLEX_GEMM_GEMM_OP] = True


def traced(node: fx.Node) -> Any:
    """What a node gives, of what its operands give: fake tensors, in storages of their own where it is no view."""
    values = [t for a in node.all_input_nodes for t in pytree.tree_leaves(a.meta["val"]) if isinstance(t, FakeTensor)]
    args, kwargs = fx.node.map_arg((node.args, dict(node.kwargs)), lambda a: a.meta["val"])
    with values[0].fake_mode:
        return node.target(*args, **kwargs)  # type: ignore[operator]


def state_like(value: torch.Tensor) -> torch.Tensor:
    """A fake tensor of the size of the generator's state of the device on which `value` lies."""
    with value.fake_mode:  # type: ignore[attr-defined]
        if value.device.type == "cpu":
            return torch.empty(torch.get_rng_state().shape, dtype=torch.uint8)
        return torch.empty(torch.get_device_module(value.device).get_rng_state().shape, dtype=torch.uint8)


Boxed = Callable[[list[Any]], Any]
"""A compiled forward or backward. It empties the list of its arguments, so that what was saved dies at its last use and not at the end."""
Watch = Callable[[Boxed], Boxed]


def _unwatched(run: Boxed) -> Boxed:
    return run


def _boxed(run: Boxed) -> Boxed:
    run._boxed_call = True  # type: ignore[attr-defined]
    return run


def _by_ops(gm: fx.GraphModule) -> Boxed:
    gm.graph.set_codegen(fx.graph._BoxedCodeGen())
    gm.recompile()
    _LazyGraphModule.force_recompile(gm)
    forward = gm.forward
    return lambda arguments: forward(arguments)


def aot_eager(
    gm: fx.GraphModule,
    inputs: Sequence[Any],
    partition: Callable[..., Any],
    watch_forward: Watch = _unwatched,
    watch_backward: Watch = _unwatched,
) -> Callable[..., Any]:
    """PyTorch's own kernels, one call an op."""
    compile = aot_autograd(
        fw_compiler=lambda gm, _: _boxed(watch_forward(_by_ops(gm))),
        bw_compiler=lambda gm, _: _boxed(watch_backward(_by_ops(gm))),
        inference_compiler=lambda gm, _: _boxed(_by_ops(gm)),
        partition_fn=partition,
        keep_inference_input_mutations=True,
    )
    with _whole_ops(_WHOLE if hints_of(inputs) else (*_WHOLE, *_WHOLE_OF_KNOWN_SIZES)):
        return compile(gm, inputs)


_WHOLE = (
    "upsample_linear1d",
    "upsample_bilinear2d",
    "upsample_trilinear3d",
    "upsample_bicubic2d",
    "_upsample_bilinear2d_aa",
    "_upsample_bicubic2d_aa",
    "_upsample_lanczos2d_aa",
)
_WHOLE_OF_KNOWN_SIZES = ("multi_margin_loss", "multilabel_margin_loss_forward")  # PyTorch traces no backward of them with symbolic sizes


@contextlib.contextmanager
def _whole_ops(names: Sequence[str]) -> Iterator[None]:
    """PyTorch takes these ops apart where it traces them, for compilers that have no kernels of them. The parts round otherwise than the
    ops' own kernels do."""
    ops = [getattr(packet, name) for packet in (getattr(torch.ops.aten, name) for name in names) for name in packet.overloads()]
    keys = (torch._C.DispatchKey.Autograd, torch._C.DispatchKey.CompositeImplicitAutograd)
    taken = [(op, key, op.py_kernels.pop(key)) for op in ops for key in keys if key in op.py_kernels]
    for op in ops:
        op._dispatch_cache.clear()
    try:
        yield
    finally:
        for op, key, kernel in taken:
            op.py_kernels[key] = kernel
        for op in ops:
            op._dispatch_cache.clear()


def compile_with_inductor(
    gm: fx.GraphModule,
    inputs: Sequence[Any],
    partitioner: CustomPartitionerFn,
    config: dict[str, Any],
    watch_forward: Watch = _unwatched,
    watch_backward: Watch = _unwatched,
) -> Callable[..., Any]:
    from torch._inductor.compile_fx import compile_fx, compile_fx_inner

    from . import inductor

    if all(i.device.type == "cpu" for i in inputs if isinstance(i, torch.Tensor)):
        # It is decided for each module that inductor compiles, and knows no plan. `layout` has decided for the joint graph, in strides that
        # convolutions are then given as they are.
        config = {"layout_optimization": False, **config}

    def inner(gm: fx.GraphModule, inputs: Sequence[Any], **options: Any) -> Any:
        made = compile_fx_inner(gm, inputs, **options)
        if options.get("is_inference"):
            return made
        return _boxed((watch_backward if options.get("is_backward") else watch_forward)(made))

    def compile(more: dict[str, Any]) -> Callable[..., Any]:
        graph = fx.GraphModule(gm, copy.deepcopy(gm.graph))  # it is changed, and may be compiled again
        graph.meta = dict(gm.meta)
        return compile_fx(graph, inputs, inner_compile=inner, config_patches={**config, "custom_partitioner_fn": partitioner, **more})

    # What was cut is not taken from a cache of an earlier process, which knows nothing of its plan: report would be empty. Kernels are.
    # The backward is compiled with the forward, and not when it first runs: it may tell that another plan is needed.
    with functorch_config.patch(enable_autograd_cache=False, force_non_lazy_backward_lowering=True):
        return inductor.within_limits(partitioner, compile)


def lays_out_convolutions() -> bool:
    """By inductor's own settings, which a program may have changed for all that it compiles."""
    from torch._inductor import config

    return bool(config.layout_optimization)


class Region:
    """A graph that PyTorch has captured, which may be compiled again once that is over: what PyTorch knows of it meanwhile is kept."""

    def __init__(self, gm: fx.GraphModule, inputs: Sequence[Any]) -> None:
        self.gm = gm
        placeholders = [n for n in gm.graph.nodes if n.op == "placeholder"]
        # The tensors of the tracing: real ones would be kept alive.
        self.inputs = [n.meta.get("example_value", i) for n, i in zip(placeholders, inputs, strict=True)]
        self._context = TracingContext.try_get()

    @contextlib.contextmanager
    def again(self) -> Iterator[None]:
        with torch.enable_grad(), tracing(self._context):
            yield


def break_after(gm: fx.GraphModule) -> str:
    """Where and why what PyTorch has captured ends before its function does; "" where it does not."""
    why = getattr(gm, "compile_subgraph_reason", None)
    if why is None or not why.graph_break:
        return ""
    lines = [line.strip() for line in str(why.reason).splitlines()] or [""]
    if lines[0].startswith("generic_jump"):
        lines = ["Data-dependent branching"]
    elif lines[0] == "step_unsupported":
        lines = ["Something that cannot be traced; TORCH_LOGS=graph_breaks shows what"]
    explanation = next((line.removeprefix("Explanation:").strip() for line in lines if line.startswith("Explanation:")), "")
    places = [f"{frame.filename}:{frame.lineno} in {frame.name}" for frame in why.user_stack]
    return f"{lines[0]}{': ' + explanation if explanation else ''} ({', called at '.join(reversed(places))})"


def hints_of(inputs: Sequence[Any]) -> dict[int, tuple[str, int]]:
    """Of each input that is a symbolic size, by its position: what it is called, and the size of the call for which is compiled."""
    return {k: (str(i), int(i.node.hint)) for k, i in enumerate(inputs) if isinstance(i, torch.SymInt) and i.node.has_hint()}


def buckets_follow() -> bool:
    """What is compiled now is one of the parts into which PyTorch cuts a model under DistributedDataParallel."""
    from torch.nn.parallel import DistributedDataParallel

    active = DistributedDataParallel._get_active_ddp_module() if torch.distributed.is_available() else None
    return active is not None and bool(torch._dynamo.config.optimize_ddp)


def is_tried_out(arguments: Sequence[Any]) -> bool:
    """A compiled graph is called with tensors that hold nothing: PyTorch does so between DDP's buckets, and keeps what comes out."""
    return any(isinstance(a, FakeTensor) for a in arguments)


def node_of_call(results: Any) -> Any:
    """The node that runs the backward of a compiled graph which has just given these results; None where none needs a gradient.

    What is at hand may be a view of what the graph has made, so the nodes before it are looked at too.
    """
    found = [t.grad_fn for t in results if isinstance(t, torch.Tensor) and t.grad_fn is not None]
    for _ in range(4):
        for node in found:
            if type(node).__name__ == "CompiledFunctionBackward" and not hasattr(node, _SEEN):
                setattr(node, _SEEN, True)
                return node
        found = [before for node in found if not hasattr(node, _SEEN) for before, _ in node.next_functions if before is not None]
    return None


_SEEN = "_isthmus_seen"


def nodes_between(results: Any) -> Iterator[Any]:
    """The nodes of ops that have run between compiled graphs and led to these tensors."""
    stack = [t.grad_fn for t in results if isinstance(t, torch.Tensor) and t.grad_fn is not None]
    visited = set(stack)
    while stack:
        node = stack.pop()
        if hasattr(node, _SEEN):
            continue
        yield node
        for before, _ in node.next_functions:
            if before is not None and before not in visited:
                visited.add(before)
                stack.append(before)


def kept_by(node: Any) -> Iterator[torch.Tensor]:
    """What an op keeps for its backward. What hooks have packed away is left where it is."""
    for name in dir(node):
        if name.startswith("_raw_saved_"):
            saved = getattr(node, name)
            for each in saved if isinstance(saved, (list, tuple)) else (saved,):
                is_plain = isinstance(each, torch._C._autograd.SavedTensor) and each.unpack_hook is None
                if is_plain and isinstance(each.data, torch.Tensor):
                    yield each.data


def leaf_of(node: Any) -> torch.Tensor | None:
    """The tensor into whose `grad` a node puts its gradient."""
    return node.variable if type(node).__name__ == "AccumulateGrad" else None


def is_profiling() -> bool:
    """The program profiles itself. A second profiler would end the first one, whose program would see nothing."""
    return bool(torch.autograd._profiler_enabled()) or torch.autograd.profiler._is_profiler_enabled


def unprofiled(run: Callable[[], Result]) -> Result:
    """What `run` gives, and no profiler of the program sees it: profilers are those of a thread."""
    if not is_profiling():
        return run()
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        return pool.submit(run).result()


@contextlib.contextmanager
def outside_of_tracing() -> Iterator[None]:
    """Ops in the block run for real, also while PyTorch traces."""
    with unset_fake_temporarily(), _disable_current_modes():
        yield


class Allocations:
    """What was allocated while a block ran. Results are there once it has ended."""

    _MARK = "isthmus::part"

    def __init__(self) -> None:
        self.peak = 0
        """The most bytes above those at the start."""
        self.peaks: list[int] = []
        """The same of each `part`, above those at its start."""
        self.left = 0
        """Bytes at the end above those at the start."""

    @contextlib.contextmanager
    def part(self) -> Iterator[None]:
        with torch.profiler.record_function(self._MARK):
            yield

    def _read(self, events: Sequence[Any]) -> None:
        cpu = torch._C._autograd.DeviceType.CPU
        memory = [e for e in events if e.name() == "[memory]" and e.device_type() == cpu]
        memory.sort(key=lambda e: e.start_ns())
        parts = sorted((e.start_ns(), e.end_ns()) for e in events if e.name() == self._MARK)
        self.peak = self._peak(memory)
        self.left = sum(e.nbytes() for e in memory)
        times = [e.start_ns() for e in memory]
        for begin, end in parts:
            self.peaks.append(self._peak(memory[bisect.bisect_left(times, begin) : bisect.bisect_right(times, end)]))

    @staticmethod
    def _peak(memory: Sequence[Any]) -> int:
        return max(itertools.accumulate((e.nbytes() for e in memory), initial=0))

    def _read_by_legacy(self, events: Sequence[Any]) -> None:
        """The events of one thread, in their order."""
        sizes: list[int] = []
        begins: list[int | None] = []  # of each event that is open, among the sizes, if it is a part
        for e in events:
            if e.kind() == "push":
                begins.append(len(sizes) if e.name() == self._MARK else None)
            elif e.kind() == "pop" and begins:
                begin = begins.pop()
                if begin is not None:
                    self.peaks.append(max(itertools.accumulate(sizes[begin:], initial=0)))
            elif e.kind() == "memory_alloc":
                sizes.append(e.cpu_memory_usage())
        self.peak = max(itertools.accumulate(sizes, initial=0))
        self.left = sum(sizes)


def _of_memory() -> ProfilerConfig:
    """Settings of the profiler: no shapes, the memory, no stacks, flops or modules."""
    return ProfilerConfig(ProfilerState.CPU, False, True, False, False, False, torch._C._profiler._ExperimentalConfig())


@contextlib.contextmanager
def _without_garbage_collection() -> Iterator[None]:
    """Python frees objects that refer to one another at some allocation or other, also tensors that are older than what is measured: their
    bytes would be taken off its own."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@contextlib.contextmanager
def allocations_on_cpu() -> Iterator[Allocations]:
    """By PyTorch's own allocator of the CPU, as its profiler sees it; what libraries allocate for themselves is not seen."""
    with _without_garbage_collection(), _allocations() as allocations:
        yield allocations


@contextlib.contextmanager
def _allocations() -> Iterator[Allocations]:
    allocations = Allocations()
    if is_profiling():
        # Another thread's profiler would be ended. PyTorch's older one stands beside it, in a thread that is not profiled.
        _enable_profiler_legacy(_of_memory())
        try:
            yield allocations
        finally:
            threads = _disable_profiler_legacy()
        allocations._read_by_legacy([e for events in threads for e in events])
        return
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profiler:
        yield allocations
    allocations._read(profiler.profiler.kineto_results.events())  # type: ignore[union-attr]


def register(name: str, backend: Callable[..., Any]) -> None:
    """For a package that no wheel has installed, whose entry point would tell PyTorch of it."""
    installed = {e.name for e in importlib.metadata.entry_points(group="torch_dynamo_backends")}
    if name not in installed and name not in _COMPILER_FNS:
        torch._dynamo.register_backend(backend, name=name)


def compilation() -> str:
    """Which frame PyTorch compiles, and for which time: "0/1"; "" outside of a compilation."""
    return str(CompileContext.current_compile_id() or "")
