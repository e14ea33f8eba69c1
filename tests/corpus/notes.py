"""The program's notes on a file's parameters, and which differences from PyTorch they explain."""

import re

# The kinds of notes that explain a difference. Each note names one tensor and counts the others.
LEFT_OUT = r"constants, not parameters"
TAKEN_IN = r"parameters, although|parameters of their own|parameters in place of"
APART = r"parameters of their own"
ABSENT = (
    r"parameters that the exporter names|parameters in place of|one parameter|constants, not parameters: the exporter computed"
)


class Notes:
    def __init__(self, lines):
        self.lines = lines

    def count(self, kind):
        """Returns the number of tensors in the notes of a kind."""
        total = 0
        for line in self.lines:
            if re.search(kind, line):
                more = re.search(r"; the same holds for (\d+) others?: ", line)
                total += 1 + int(more[1] if more else 0)
        return total

    def unexplained(self, kind, found):
        """Returns those texts of {name: text} whose name is in no note; none if the notes of the kind count as many
        tensors."""
        left = {n: text for n, text in found.items() if not any(f"'{n}'" in line for line in self.lines)}
        return [] if len(found) <= self.count(kind) else list(left.values())
