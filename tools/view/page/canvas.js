// --- A panel: a canvas that is drawn at most once a frame, and what the pointer does on it

class Panel {
  constructor(id, shared, theme) {
    this.shared = shared;
    this.theme = theme;
    this.canvas = byId(id).querySelector("canvas");
    this.context = this.canvas.getContext("2d", {alpha: false});
    this.isDue = false;
    new ResizeObserver(() => this.resized()).observe(this.canvas);
    this.listenToPointer();
  }

  resized() {
    this.ratio = window.devicePixelRatio || 1;
    this.width = this.canvas.clientWidth;
    this.height = this.canvas.clientHeight;
    this.canvas.width = Math.max(1, Math.round(this.width * this.ratio));
    this.canvas.height = Math.max(1, Math.round(this.height * this.ratio));
    this.draw();
  }

  request() {
    if (this.isDue) return;
    this.isDue = true;
    requestAnimationFrame(() => this.draw());
  }

  draw() {
    this.isDue = false;
    if (!this.width || !this.height) return;
    const c = this.context;
    c.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    c.fillStyle = this.theme.inks.page;
    c.fillRect(0, 0, this.width, this.height);
    c.font = "11px system-ui, sans-serif";
    c.textBaseline = "middle";
    c.textAlign = "left";
    this.paint(c);
  }

  listenToPointer() {
    const canvas = this.canvas;
    let pressed = null; // where the pointer was pressed, and last seen
    canvas.addEventListener("pointerdown", e => {
      pressed = {x: e.offsetX, y: e.offsetY, moved: 0};
      canvas.setPointerCapture(e.pointerId);
    });
    canvas.addEventListener("pointermove", e => {
      if (!pressed) return this.pointed(e);
      const dx = e.offsetX - pressed.x, dy = e.offsetY - pressed.y;
      pressed.moved += Math.abs(dx) + Math.abs(dy);
      if (pressed.moved > 4) this.dragged(dx, dy);
      pressed.x = e.offsetX;
      pressed.y = e.offsetY;
    });
    canvas.addEventListener("pointerup", e => {
      if (pressed && pressed.moved <= 4) this.clicked(e.offsetX, e.offsetY);
      pressed = null;
    });
    canvas.addEventListener("pointercancel", () => { pressed = null; });
    canvas.addEventListener("pointerleave", () => {
      this.shared.hover(null);
      Tip.hide();
    });
    canvas.addEventListener("wheel", e => this.wheeled(e), {passive: false});
  }

  pointed(e) {
    const target = this.targetAt(e.offsetX, e.offsetY);
    this.shared.hover(target);
    const text = target && this.tipFor(target, e.offsetX);
    if (text) Tip.show(text, e.clientX, e.clientY);
    else Tip.hide();
    this.canvas.style.cursor = target ? "pointer" : "default";
  }
}

// The few lines beside the pointer.
const Tip = {
  show(lines, x, y) {
    const tip = byId("tip");
    tip.replaceChildren(...lines.map(line => element("div", {}, line)));
    tip.hidden = false;
    const left = Math.min(x + 14, window.innerWidth - tip.offsetWidth - 8);
    const top = y + 18 + tip.offsetHeight > window.innerHeight ? y - tip.offsetHeight - 8 : y + 18;
    tip.style.left = Math.max(4, left) + "px";
    tip.style.top = Math.max(4, top) + "px";
  },
  hide() { byId("tip").hidden = true; }
};

// A panel whose x axis is the nodes of the step.
class StepPanel extends Panel {
  get left() { return this.width < 500 ? 50 : 66; } // of the plot
  get plotWidth() { return this.width - this.left - 6; }

  xOf(node) {
    const s = this.shared.stretch;
    return this.left + (node - s.from) / s.width * this.plotWidth;
  }
  nodeAt(x) {
    const s = this.shared.stretch;
    const node = Math.floor(s.from + (x - this.left) / this.plotWidth * s.width);
    return Math.max(0, Math.min(this.shared.step.numNodes - 1, node));
  }

  dragged(dx) { this.shared.move(s => s.pan(-dx / this.plotWidth * s.width)); }

  wheeled(e) {
    const isSideways = e.shiftKey || Math.abs(e.deltaX) > Math.abs(e.deltaY);
    // On a small screen the wheel and two fingers scroll the page, unless Ctrl is held.
    if (!isSideways && !e.ctrlKey && document.documentElement.scrollHeight > window.innerHeight + 4) return;
    e.preventDefault();
    const by = e.deltaMode === 1 ? 16 : 1;
    if (isSideways) {
      const delta = (e.deltaX || e.deltaY) * by;
      return this.shared.move(s => s.pan(delta / this.plotWidth * s.width));
    }
    const s = this.shared.stretch;
    const at = s.from + (e.offsetX - this.left) / this.plotWidth * s.width;
    this.shared.move(s => s.zoom(at, Math.exp(e.deltaY * by / 400)));
  }

  // Lines and texts of the axis of bytes; `yOf` maps bytes to pixels.
  paintBytesAxis(c, low, high, yOf) {
    const step = niceBytes((high - low) / Math.max(1.5, (yOf(low) - yOf(high)) / 30));
    c.textAlign = "right";
    for (let bytes = Math.ceil(low / step) * step; bytes <= high; bytes += step) {
      const y = Math.round(yOf(bytes)) + 0.5;
      c.fillStyle = this.theme.inks.grid;
      c.fillRect(this.left, y - 0.5, this.plotWidth, 1);
      c.fillStyle = this.theme.inks.faint;
      c.fillText(bytesText(bytes), this.left - 6, Math.max(7, Math.min(this.height - 7, y)));
    }
    c.textAlign = "left";
  }

  // The nodes that are selected, looked at or found, as lines over the plot.
  paintMarks(c, bottom) {
    const {light, cursor, hovered, matches} = this.shared, inks = this.theme.inks;
    const nodeWidth = this.plotWidth / this.shared.stretch.width;
    const mark = (node, colour, width) => {
      const x = this.xOf(node + 0.5);
      if (x < this.left || x > this.left + this.plotWidth) return;
      c.fillStyle = colour;
      c.fillRect(x - width / 2, 0, width, bottom);
    };
    if (matches) this.paintMatches(c, matches, nodeWidth);
    if (light) {
      for (const node of light.readers) mark(node, inks.faint, 1);
      mark(light.node, inks.lit, Math.max(1, Math.min(2, nodeWidth)));
    } else {
      mark(cursor, inks.faint, 1);
    }
    if (hovered && hovered.node >= 0) {
      c.fillStyle = inks.shade;
      const x = this.xOf(hovered.node);
      c.fillRect(x, 0, Math.max(1, nodeWidth), bottom);
    }
  }

  // Ticks at the top, one a pixel at most.
  paintMatches(c, matches, nodeWidth) {
    c.fillStyle = this.theme.way(1);
    const {from, to, width} = this.shared.stretch, perPixel = width / this.plotWidth;
    for (let node = Math.floor(from); node < to;) {
      const next = matches[firstAt(0, matches.length, i => matches[i] >= node)];
      if (next === undefined || next >= to) break;
      c.fillRect(this.xOf(next), 0, Math.max(2, nodeWidth), 7);
      node = Math.max(next + 1, Math.ceil(next + perPixel));
    }
  }
}

// The next power of two, so that an axis has round figures.
function niceBytes(bytes) { return 2 ** Math.max(0, Math.ceil(Math.log2(Math.max(1, bytes)))); }

// The next of 1, 2, 5, 10, 20 ...
function niceCount(count) {
  const scale = 10 ** Math.floor(Math.log10(Math.max(1, count)));
  return [1, 2, 5, 10].find(f => f * scale >= count) * scale;
}
