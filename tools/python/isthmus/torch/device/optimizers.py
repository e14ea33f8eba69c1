"""Works out what an optimizer's step needs before the optimizer has run: its state, and the memory that it takes while it runs.

A twin of the optimizer, with the same class and groups, runs one step on parameters without memory (device "meta"). What it makes there in the
shapes of its parameters is what the optimizer will make on the device.
"""

from __future__ import annotations

import collections
import weakref
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from ...errors import BadInput
from .. import hooks


_BLOCK = 512
"""The allocator of a GPU hands out multiples of these bytes."""


def allocated(size: int, device: torch.device) -> int:
    """Returns the bytes that the allocator of a device hands out for a storage."""
    return -(-size // _BLOCK) * _BLOCK if device.type == "cuda" else size


@dataclass(frozen=True)
class Need:
    """What the step of an optimizer takes of the device. Bytes are those that the allocator hands out."""

    name: str
    state_bytes: int
    """The state that does not exist yet."""
    workspace_bytes: int
    """The peak of what the step takes while it runs, beyond parameters, gradients and state."""
    is_known: bool = True
    """False: the optimizer does not run on parameters without memory, so its state is assumed to be two copies of the parameters in 32 bits, and
    its workspace to be one."""


def optimizers_in(given: Any) -> list[Any]:
    """Returns the optimizers in an argument that is an optimizer, a wrapper of one, or a list or dictionary of them. Raises BadInput."""
    each = list(given.values()) if isinstance(given, dict) else list(given) if isinstance(given, (list, tuple)) else [given]
    found = [_unwrapped(o) for o in each]
    for optimizer in found:
        if not isinstance(optimizer, torch.optim.Optimizer):
            raise BadInput(f"optimizer is a torch.optim.Optimizer, or a list of them; got {type(optimizer).__name__}")
    return found


def unwrapped_among(optimizers: Iterable[Any]) -> list[torch.optim.Optimizer]:
    """Returns the optimizers without wrappers such as Accelerate's, which share the groups of the wrapped one."""
    return [o for o in optimizers if _unwrapped(o) is o and hasattr(o, "param_groups")]


def _unwrapped(optimizer: Any) -> Any:
    inner = getattr(optimizer, "optimizer", None)
    return _unwrapped(inner) if isinstance(inner, torch.optim.Optimizer) else optimizer


def need_of(optimizer: torch.optim.Optimizer, device: torch.device) -> Need:
    """Returns what the optimizer's next step will make on a device. Parameters whose state exists need no more of it."""
    return need_for(optimizer, [p for group in optimizer.param_groups for p in group["params"] if p.requires_grad and p.device == device], device)


def need_for(optimizer: torch.optim.Optimizer, parameters: list[torch.Tensor], device: torch.device) -> Need:
    """Does the same for some of the optimizer's parameters, wherever they lie, as if that were the device."""
    name = type(optimizer).__name__
    if not parameters:
        return Need(name, 0, 0)
    fresh = [p for p in parameters if not optimizer.state.get(p)]
    try:
        state, workspace = _run_of_twin(optimizer, parameters, device)
    except Exception:  # an optimizer of another package may do anything with its parameters
        elements = sum(p.numel() for p in fresh)
        return Need(name, 8 * elements, 4 * sum(p.numel() for p in parameters), is_known=False)
    counters = sum(_steps_on_device(group, fresh, device) for group in optimizer.param_groups)
    return Need(name, sum(state.get(id(p), 0) for p in fresh) + counters, workspace)


def _steps_on_device(group: dict[str, Any], fresh: list[torch.Tensor], device: torch.device) -> int:
    """Returns the bytes of the counters of steps, which a fused or capturable optimizer has on a GPU, and any other one on the CPU."""
    on_device = device.type != "cpu" and (group.get("fused") or group.get("capturable"))
    return sum(allocated(4, device) for p in group["params"] if on_device and any(p is f for f in fresh))


def _run_of_twin(optimizer: Any, parameters: list[torch.Tensor], device: torch.device) -> tuple[dict[int, int], int]:
    """Returns the bytes of state that a step makes for each parameter, by the parameter's id, and the workspace of the step."""
    if isinstance(optimizer, torch.optim.LBFGS):  # its step takes the function of the loss
        return _of_lbfgs(optimizer, parameters)
    twins = {id(p): torch.nn.Parameter(torch.empty_like(p, device="meta"), requires_grad=True) for p in parameters}
    for twin in twins.values():
        twin.grad = torch.empty_like(twin)
    made = object.__new__(type(optimizer))
    made.__dict__.update(optimizer.__dict__)
    made.__dict__.pop("step", None)  # schedulers of learning rates put one there, which runs the optimizer itself
    for name in [n for n in made.__dict__ if n.startswith("_optimizer_")]:
        made.__dict__[name] = collections.OrderedDict()  # hooks are the program's, and must not see the twin
    made.state = collections.defaultdict(dict)
    made.param_groups = [_twin_of(group, twins, device) for group in optimizer.param_groups]
    with hooks.without_hooks_of_optimizers(), torch.no_grad(), _Live(device) as live:
        made.step()
    state = {key: sum(allocated(_bytes(t), device) for t in _tensors(made.state.get(twin), device)) for key, twin in twins.items()}
    is_fused = all(group.get("fused") for group in optimizer.param_groups)
    return state, 0 if is_fused else max(0, live.peak - sum(state.values()))


def _twin_of(group: dict[str, Any], twins: dict[int, torch.nn.Parameter], device: torch.device) -> dict[str, Any]:
    """Returns the group with its twins, and with the loops over its parameters that PyTorch would choose on this device."""
    made = {key: value.item() if isinstance(value, torch.Tensor) else value for key, value in group.items()}
    made["params"] = [twins[id(p)] for p in group["params"] if id(p) in twins]
    if "fused" in made or "foreach" in made:
        is_default = group.get("foreach") is None and not group.get("fused") and device.type == "cuda"
        made.update(foreach=bool(group.get("foreach")) or is_default, fused=False)
    if "capturable" in made:
        made["capturable"] = False
    return made


def _of_lbfgs(optimizer: Any, parameters: list[torch.Tensor]) -> tuple[dict[int, int], int]:
    """Its history holds two vectors of all parameters for each step, and its step three more: the direction, and the flat gradient twice."""
    (group,) = optimizer.param_groups
    whole = sum(_bytes(p) for p in parameters)
    return {id(parameters[0]): (2 * group["history_size"] + 2) * whole}, 3 * whole


def _tensors(state: Any, device: torch.device) -> Iterator[torch.Tensor]:
    """Yields the tensors in a parameter's state that lie with the parameter. A counter of steps lies on the CPU."""
    return (t for t in pytree.tree_leaves(state) if isinstance(t, torch.Tensor) and t.device.type in ("meta", device.type))


def _bytes(t: torch.Tensor) -> int:
    return t.numel() * t.element_size()


class _Live(TorchDispatchMode):
    """Follows the bytes of the tensors without memory that ops make while the mode is on."""

    def __init__(self, device: torch.device) -> None:
        super().__init__()
        self.peak = self._live = 0
        self._device = device
        self._known: set[int] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.ops.aten._local_scalar_dense.default and args[0].device.type == "meta":
            return 1.0  # the optimizer reads a number of a tensor without memory: any number will do
        given = {t.untyped_storage()._cdata for t in _meta((args, kwargs))}
        results = func(*args, **(kwargs or {}))
        for t in _meta(results):
            storage = t.untyped_storage()
            if storage._cdata not in given and storage._cdata not in self._known:
                self._add(storage)
        return results

    def _add(self, storage: torch.UntypedStorage) -> None:
        key, size = storage._cdata, allocated(storage.nbytes(), self._device)
        self._known.add(key)
        self._live += size
        self.peak = max(self.peak, self._live)
        weakref.finalize(storage, self._drop, key, size)

    def _drop(self, key: int, size: int) -> None:
        self._known.discard(key)
        self._live -= size


def _meta(values: Any) -> Iterable[torch.Tensor]:
    return [t for t in pytree.tree_leaves(values) if isinstance(t, torch.Tensor) and t.device.type == "meta"]
