"""Runs the program in the processes that mpirun starts."""

import os
import subprocess
import tempfile
import time

import command

MPIRUN = "mpirun"  # by name: a path such as /bin/mpirun would say where OpenMPI lies on all hosts
# As root, with more processes than cores, and not bound to one: tests run where there are few.
START = ["--allow-run-as-root", "--oversubscribe", "--bind-to", "none"]


def environment(folder):
    return {**os.environ, "TMPDIR": folder, "OMPI_MCA_btl_vader_single_copy_mechanism": "none"}


def mpirun(ranks, *args, cwd=None, env=None, program=None):
    """Runs `mpirun -n RANKS isthmus ARGS`."""
    start = time.monotonic()
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:  # its sockets need a short name
        process = subprocess.run([MPIRUN, *START, "-n", str(ranks), program or command.BINARY, *map(str, args)], cwd=cwd,
                                 stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                 env={**environment(folder), **(env or {})}, timeout=command.TIMEOUT)
    return command.Result(process.returncode, process.stdout, process.stderr.decode(errors="backslashreplace"),
                          time.monotonic() - start)
