"""Makes snapshots as torch.cuda.memory._snapshot() returns them, with an allocator of its own, and knows what each event leaves behind."""

import random

SEGMENT = 1 << 20
ALIGNMENT = 512


class Allocator:
    """Serves requests from segments, the first place that is large enough, and notes what it does."""

    def __init__(self, base=0x7F0000000000):
        self.next_segment, self.time = base, 1_700_000_000_000_000
        self.segments, self.blocks = {}, {}  # by address: bytes; [bytes, requested bytes, state, frames]
        self.trace, self.known = [], [self._now()]  # what is known at the beginning and after each event

    def _now(self):
        allocated = sum(requested for _, requested, state, _ in self.blocks.values() if state == "active_allocated")
        awaits = sum(requested for _, requested, state, _ in self.blocks.values() if state == "active_pending_free")
        return allocated, awaits, sum(self.segments.values()) - allocated - awaits

    def _note(self, action, addr, size, frames):
        self.time += 10
        self.trace.append({"action": action, "addr": addr, "size": size, "stream": 0, "time_us": self.time, "frames": frames,
                           "compile_context": "N/A", "user_metadata": ""})
        self.known.append(self._now())

    def _place(self, size):
        for segment, total in self.segments.items():
            at = segment
            for addr in sorted(a for a in self.blocks if segment <= a < segment + total):
                if addr - at >= size:
                    return at
                at = addr + self.blocks[addr][0]
            if segment + total - at >= size:
                return at
        return None

    def alloc(self, requested, frames=()):
        size = -(-requested // ALIGNMENT) * ALIGNMENT
        addr = self._place(size)
        if addr is None:
            addr, total = self.next_segment, -(-size // SEGMENT) * SEGMENT
            self.next_segment += 2 * total
            self.segments[addr] = total
            self._note("segment_alloc", addr, total, list(frames))
        self.blocks[addr] = [size, requested, "active_allocated", list(frames)]
        self._note("alloc", addr, requested, list(frames))
        return addr

    def request_free(self, addr):
        self.blocks[addr][2] = "active_pending_free"
        self._note("free_requested", addr, self.blocks[addr][1], [])

    def complete_free(self, addr):
        _, requested, _, _ = self.blocks.pop(addr)
        self._note("free_completed", addr, requested, [])

    def free(self, addr):
        self.request_free(addr)
        self.complete_free(addr)

    def empty(self):
        """Gives back the segments that hold nothing."""
        for segment, total in list(self.segments.items()):
            if not any(segment <= a < segment + total for a in self.blocks):
                del self.segments[segment]
                self._note("segment_free", segment, total, [])

    def snapshot(self, last=None, device=0):
        """last: the number of events that are remembered; None: all."""
        trace = self.trace if last is None else self.trace[len(self.trace) - last :]
        segments = [self._segment(segment, total, device) for segment, total in self.segments.items()]
        return {"segments": segments, "device_traces": [[]] * device + [trace], "allocator_settings": {"expandable_segments": False},
                "external_annotations": []}

    def _segment(self, segment, total, device):
        blocks, at = [], segment
        for addr in sorted(a for a in self.blocks if segment <= a < segment + total):
            size, requested, state, frames = self.blocks[addr]
            if addr > at:
                blocks.append({"address": at, "size": addr - at, "requested_size": 0, "state": "inactive", "frames": []})
            blocks.append({"address": addr, "size": size, "requested_size": requested, "state": state, "frames": frames})
            at = addr + size
        if segment + total > at:
            blocks.append({"address": at, "size": segment + total - at, "requested_size": 0, "state": "inactive", "frames": []})
        return {"device": device, "address": segment, "total_size": total, "stream": 0, "segment_type": "large",
                "segment_pool_id": (0, 0), "is_expandable": False, "frames": [], "blocks": blocks}


def frames(*lines):
    """Frames as PyTorch notes them, the innermost first: of ("model.py", 31, "forward")."""
    own = [{"filename": f"/home/someone/{file}", "line": line, "name": name} for file, line, name in reversed(lines)]
    return [{"filename": "/venv/torch/nn/modules/linear.py", "line": 125, "name": "forward"}, *own,
            {"filename": "??", "line": 0, "name": "_start"}]


def training(steps=4, seed=0):
    """An allocator after some steps: layers allocate in a forward, and free in a backward, some after a while; workspaces come and go."""
    rng, allocator = random.Random(seed), Allocator()
    weights = [allocator.alloc(300_000 + 1000 * k, frames(("train.py", 5, "main"), ("model.py", 10 + k, "__init__"))) for k in range(4)]
    for _ in range(steps):
        saved, late = [], []
        for k in range(8):
            where = frames(("train.py", 20, "main"), ("model.py", 30 + k, "forward"))
            saved.append(allocator.alloc(rng.randrange(50_000, 900_000), where))
            allocator.free(allocator.alloc(rng.randrange(1_000, 400_000), where))
        for addr in reversed(saved):
            gradient = allocator.alloc(rng.randrange(50_000, 500_000), frames(("train.py", 21, "main")))
            if rng.random() < 0.4:
                allocator.request_free(addr)
                late.append(addr)
            else:
                allocator.free(addr)
            allocator.free(gradient)
        for addr in late:
            allocator.complete_free(addr)
    allocator.empty()
    allocator.request_free(weights[0])
    return allocator
