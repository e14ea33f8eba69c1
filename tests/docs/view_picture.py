"""Draws the picture of docs/view.md: the page of a U-Net within 60 % of its memory. Run it by hand, with Chromium:

    python3 tests/docs/view_picture.py bazel-bin/tools/isthmus docs/view.png
"""

import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))

import chromium
from small_png import small_png

isthmus, picture = (os.path.abspath(p) for p in sys.argv[1:])

# The tensor that the picture shows selected: the largest that is saved at the peak.
SELECT = """(() => { const v = isthmusView, s = v.shared.step;
  v.shared.select({block: s.blocks.liveAt(s.peakNode).find(i => s.blocks.kind[i] === 0)});
  v.shared.cursor = s.peakNode;
  v.live.show() })()"""

with tempfile.TemporaryDirectory() as folder, chromium.Browser(1200, 860) as browser:
    for command in (["zoo", "unet", "-o", "unet.isth"], ["view", "unet.isth", "--loss=cross_entropy", "--budget=60%", "-o", "unet.html"]):
        subprocess.run([isthmus, *command], cwd=folder, check=True)
    browser.prefer("light")
    browser.open(os.path.join(folder, "unet.html"))
    browser.value(SELECT)
    browser.value("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))")
    browser.picture(picture)

with open(picture, "rb") as file:
    small = small_png(file.read())
with open(picture, "wb") as file:
    file.write(small)
