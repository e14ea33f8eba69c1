"""Installs the wheel in an old system, and plans and runs models there: what comes of it has the same bytes as here."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile

CACHE = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "isthmus")
SYSTEM = os.path.join(CACHE, "debian-11")  # as tools/setup --wheel makes it
STEPS = """\
set -eu
cd "$1"
export HOME="$PWD" LC_ALL=C
python3 -m venv environment
environment/bin/python -m pip install --quiet --no-index --disable-pip-version-check *.whl
PATH="$PWD/environment/bin:$PATH"
ldd --version | head -1
isthmus --version
isthmus zoo unet --batch=1 -o unet.isth
isthmus zoo gpt2 --depth=2 --width=64 --heads=2 --tokens=32 --vocab=100 -o gpt2.isth
isthmus zoo realnvp -o realnvp.isth
for model in "unet --loss=cross_entropy" "gpt2 --loss=cross_entropy" realnvp; do
  name=${model%% *}
  isthmus opt $name.isth ${model#$name} --budget=80% --progress=none -o made/$name.isth
  isthmus run made/$name.isth --progress=none --outputs=made/$name
done
python -c '
import isthmus
graph = isthmus.Graph.load("unet.isth").compile(loss="cross_entropy", budget="70%")
graph.save("made/python.isth")
'
"""


def steps(root: str, folder: str) -> None:
    """Runs the steps in a folder of a system, whose root is / for this one."""
    command = ["sh", "-c", STEPS, "sh", folder]
    if root != "/":
        inside = 'mount -t proc proc "$1/proc" && mount --bind /dev "$1/dev" && root=$1 && shift && exec chroot "$root" "$@"'
        command = ["unshare", "--mount", "sh", "-c", inside, "sh", root, *command]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        sys.exit(f"{done.stdout}wheel: error: the wheel does not work in {root}")


def contents(folder: str) -> dict[str, bytes]:
    found = {}
    for path, _, names in os.walk(folder):
        for name in names:
            with open(os.path.join(path, name), "rb") as file:
                found[os.path.relpath(os.path.join(path, name), folder)] = file.read()
    return found


def check(wheel: str) -> None:
    if os.geteuid():
        sys.exit("wheel: error: --check runs programs in another root folder, which only root may; run it as root")
    made = []
    for root in (SYSTEM, "/"):
        with tempfile.TemporaryDirectory(dir=os.path.join(root, "tmp")) as folder:
            shutil.copy(wheel, folder)
            os.mkdir(os.path.join(folder, "made"))
            steps(root, "/" + os.path.relpath(folder, root))
            made.append(contents(os.path.join(folder, "made")))
    there, here = made
    differ = sorted(name for name in there.keys() | here.keys() if there.get(name) != here.get(name))
    if differ:
        sys.exit(f"wheel: error: these files differ from those that the wheel makes here: {', '.join(differ)}")
    print(f"wheel: {len(here)} files of plans and results are the same in {SYSTEM}", file=sys.stderr)
