"""Checks which tensors of an export are learned: every parameter that the loss depends on, once, and nothing else. A
note must explain each difference."""

import matching
import numpy as np
import onnx
import onnx_side
from notes import ABSENT, APART, LEFT_OUT, TAKEN_IN, Notes


def are_same(a, b):
    """Returns whether the arrays are equal except for their shapes."""
    return a.size == b.size and np.array_equal(a.ravel(), b.ravel())


def are_rearranged(a, b):
    return a.size == b.size and np.array_equal(np.sort(a.ravel()), np.sort(b.ravel()))


class Learned:
    """`matches` maps learned tensors to the forms of parameters that they equal; `values` are the file's floats."""

    def __init__(self, checker, truth, step, matches, values, moved_path):
        self.row, self.truth, self.step, self.matches, self.values = checker.row, truth, step, matches, values
        self.has_signature = onnx_side.has_signature(checker.model)
        moved = onnx_side.floats(onnx.load(moved_path)) if moved_path else {}
        # The tensors that depend on parameters: with other parameters they have other values.
        self.made = [n for n, v in values.items() if n in moved and moved[n].shape == v.shape and not np.array_equal(moved[n], v)]
        named = {truth.names.get(n) for n in matches}
        self.readers = {}  # by parameter: the learned tensors that equal it
        for name, found in matches.items():
            for parameter in {p for i, f in enumerate(found) for p in f.parameters if i == 0 or p not in named}:
                self.readers.setdefault(parameter, []).append(name)

    def ask(self, call):
        gradients = self.truth.step(0, False).gradients
        wanted = [n for n, g in gradients.items() if g is not None]
        absent, unread = self.missing(wanted)
        unread.update(self.left_out(unread, [n for n, g in gradients.items() if g is None]))
        notes = Notes(call.notes())
        for kind, found in ((TAKEN_IN, self.strange()), (APART, self.apart()), (ABSENT, absent), (LEFT_OUT, unread)):
            for text in notes.unexplained(kind, found):
                self.row.fail("learned", f"{text}, and no note says so", call)
        self.row.figures["parameters"] = len(wanted)
        self.row.figures["learned"] = len([p for p in wanted if p in self.readers])

    def strange(self):
        """Finds learned tensors that match no parameter."""
        unmatched = [n for n, found in self.matches.items() if not found]
        self.row.figures["computed"] = len([n for n in unmatched if n in self.made])
        found = {}
        for name in (n for n in unmatched if n not in self.made):
            is_buffer = name in self.truth.buffers
            if is_buffer and not self.has_signature and not any(w in name for w in ("running_", "num_batches")):
                # Nothing in the file distinguishes the buffer from a parameter.
                self.row.figures["buffers"] = self.row.figures.get("buffers", 0) + 1
                continue
            shape = list(self.step[f"grad.{name}"].shape)
            found[name] = f"'{name}' {shape} is learned and is no parameter{' but a buffer' if is_buffer else ''}"
        return found

    def apart(self):
        """Finds parameters that are learned as several tensors."""
        found = {}
        for parameter, names in self.readers.items():
            text = f"'{parameter}' is learned {len(names)} times, as {', '.join(names[:6])}"
            found.update({n: text for n in names[1:]})
        return found

    def missing(self, wanted):
        """Finds parameters that are not learned: those that the file does not contain, and those that it does."""
        absent, unread = {}, {}
        for parameter in (p for p in wanted if p not in self.readers):
            there = [n for n in self.values if n not in self.matches and parameter in self.parameters_of(n)]
            if there:
                unread[there[0]] = f"'{parameter}' is in the file as {', '.join(there[:4])} and is not learned"
            elif self.has_signature:
                absent[parameter] = f"'{parameter}' is not in the file and is not learned"
        return absent, unread

    def parameters_of(self, name):
        truth = self.truth
        found = matching.match(truth.names.get(name, name), self.values[name], truth.forms, truth.parameters)
        return {p for f in found for p in f.parameters}

    def left_out(self, unread, unused):
        """Finds tensors that depend on used parameters, are not learned, and are no copy of a learned tensor or of one
        in `unread`."""
        found = {}
        values = self.values
        for name in (n for n in self.made if n not in self.matches and n not in unread):
            is_copy = any(are_rearranged(values[n], values[name]) for n in self.matches if n in values)
            is_copy = is_copy or any(are_same(values[n], values[name]) for n in {**unread, **found} if n in values)
            if not is_copy and not any(are_same(self.truth.parameters[p], values[name]) for p in unused):
                found[name] = f"'{name}' {list(values[name].shape)} is made of parameters and is not learned"
        return found
