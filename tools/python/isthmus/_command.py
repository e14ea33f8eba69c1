"""Runs the command `isthmus` that lies in the package."""

from __future__ import annotations

import os
import sys


def main() -> None:
    command = os.path.join(os.path.dirname(os.path.abspath(__file__)), "isthmus")
    try:
        os.execv(command, [sys.argv[0], *sys.argv[1:]])
    except OSError as error:
        sys.exit(f"isthmus: error: cannot run '{command}': {error.strerror}; the wheel brings it, so install that anew")
