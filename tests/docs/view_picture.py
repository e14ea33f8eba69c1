"""Draws the pictures of docs/view.md and docs/stages.md: the page of a U-Net within 60 % of its memory, the page of a small GPT-2 on
two devices, and the picture of its schedule. Run it by hand, with Chromium:

    python3 tests/docs/view_picture.py bazel-bin/tools/isthmus docs
"""

import os
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))

import chromium
from small_png import small_png

isthmus, docs = (os.path.abspath(p) for p in sys.argv[1:])

GPT2 = ["zoo", "gpt2", "--depth=4", "--width=64", "--heads=4", "--batch=8", "--tokens=32", "--vocab=500", "-o", "gpt2.isth"]
PIPELINE = ["gpt2.isth", "--loss=cross_entropy", "--threads=1", "--stages=2", "--microbatches=4", "--schedule=1f1b", "--checkpoint=always"]
UNET = ["unet.isth", "--loss=cross_entropy", "--budget=60%"]
COMMANDS = [
    ["zoo", "unet", "-o", "unet.isth"], ["view", *UNET, "-o", "unet.html"], GPT2, ["view", *PIPELINE, "-o", "pipeline.html"],
    ["opt", *PIPELINE, "--timeline=schedule.svg"],
]
# Selects the largest tensor that is saved at the peak.
SAVED = """(() => { const v = isthmusView, s = v.shared.step;
  v.shared.select({block: s.blocks.liveAt(s.peakNode).find(i => s.blocks.kind[i] === 0)});
  v.shared.cursor = s.peakNode;
  v.live.show() })()"""
# Selects the first bar in which the first device recomputes.
RECOMPUTED = "(s => s.select({bar: s.step.times.bars.kind.indexOf(3)}))(isthmusView.everyShared[0])"
FRAME = "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))"


def draw(browser, page, select, picture):
    browser.open(page)
    browser.value(select)
    browser.value(FRAME)
    browser.picture(picture)
    with open(picture, "rb") as file:
        small = small_png(file.read())
    with open(picture, "wb") as file:
        file.write(small)


with tempfile.TemporaryDirectory() as folder, chromium.Browser(1200, 860) as browser:
    for command in COMMANDS:
        subprocess.run([isthmus, *command], cwd=folder, check=True)
    browser.prefer("light")
    draw(browser, os.path.join(folder, "unet.html"), SAVED, os.path.join(docs, "view.png"))
    draw(browser, os.path.join(folder, "pipeline.html"), RECOMPUTED, os.path.join(docs, "view_stages.png"))
    shutil.copyfile(os.path.join(folder, "schedule.svg"), os.path.join(docs, "schedule.svg"))
