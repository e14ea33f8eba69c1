// --- A panel: a canvas that is drawn at most once a frame, and what the pointer does on it

class Panel {
  constructor(canvas, shared, theme) {
    this.shared = shared;
    this.theme = theme;
    this.canvas = canvas;
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

// A panel whose x axis is the step.
class StepPanel extends Panel {
  get left() { return this.width < 500 ? 50 : 66; } // of the plot
  get plotWidth() { return this.width - this.left - 6; }

  xOf(node) { return this.xAt(this.shared.step.axis.placeOf(node)); }
  xAt(place) {
    const s = this.shared.stretch;
    return this.left + (place - s.from) / s.width * this.plotWidth;
  }
  placeAt(x) {
    const s = this.shared.stretch;
    return s.from + (x - this.left) / this.plotWidth * s.width;
  }
  get perPixel() { return this.shared.stretch.width / this.plotWidth; }
  // The nodes in the pixel at `x`: the first, and the one behind the last.
  nodesAt(x) {
    const place = this.placeAt(x);
    return this.shared.step.axis.range(place, place + this.perPixel);
  }

  dragged(dx) { this.shared.move(s => s.pan(-dx / this.plotWidth * s.width)); }

  wheeled(e) {
    const isSideways = e.shiftKey || Math.abs(e.deltaX) > Math.abs(e.deltaY);
    // On a small screen the wheel and two fingers scroll the page, unless Ctrl is held.
    if (!isSideways && !e.ctrlKey && this.isScrolled()) return;
    e.preventDefault();
    const by = e.deltaMode === 1 ? 16 : 1;
    if (isSideways) {
      const delta = (e.deltaX || e.deltaY) * by;
      return this.shared.move(s => s.pan(delta / this.plotWidth * s.width));
    }
    const at = this.placeAt(e.offsetX);
    this.shared.move(s => s.zoom(at, Math.exp(e.deltaY * by / 400)));
  }

  isScrolled() { return document.documentElement.scrollHeight > window.innerHeight + 4; }

  // Ticks and their texts below the plot.
  paintStepAxis(c, word) {
    const s = this.shared.stretch, {axis} = this.shared.step, bottom = this.height - 16;
    const step = axis.niceStep(s.width / (this.plotWidth / 80));
    c.fillStyle = this.theme.inks.faint;
    c.textAlign = "center";
    for (let place = Math.ceil(s.from / step) * step; place <= s.to; place += step) {
      const x = this.xAt(place);
      if (x < this.left + 8 || x > this.left + this.plotWidth - 20) continue;
      c.fillRect(Math.round(x), bottom, 1, 3);
      c.fillText(axis.text(place), x, this.height - 6);
    }
    c.textAlign = "right";
    c.fillText(word, this.left - 6, this.height - 6);
    c.textAlign = "left";
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
    const widthOf = node => this.xOf(node + 1) - this.xOf(node);
    const mark = (node, colour, width) => {
      const x = this.xOf(node + 0.5);
      if (x < this.left || x > this.left + this.plotWidth) return;
      c.fillStyle = colour;
      c.fillRect(x - width / 2, 0, width, bottom);
    };
    if (matches) this.paintMatches(c, matches);
    if (light?.bar >= 0) this.paintBarShade(c, light.bar, bottom);
    else if (light) {
      for (const node of light.readers) mark(node, inks.faint, 1);
      mark(light.node, inks.lit, Math.max(1, Math.min(2, widthOf(light.node))));
    } else {
      mark(cursor, inks.faint, 1);
    }
    if (hovered && hovered.node >= 0) {
      c.fillStyle = inks.shade;
      c.fillRect(this.xOf(hovered.node), 0, Math.max(1, widthOf(hovered.node)), bottom);
    }
  }

  // The time of a bar of the schedule.
  paintBarShade(c, bar, bottom) {
    const {times} = this.shared.step, x = this.xAt(times.barBegin(bar));
    c.fillStyle = this.theme.inks.shade;
    c.fillRect(x, 0, Math.max(1, this.xAt(times.barEnd(bar)) - x), bottom);
  }

  // Ticks at the top, one a pixel at most.
  paintMatches(c, matches) {
    c.fillStyle = this.theme.way(1);
    const {stretch, step: {axis}} = this.shared, [first, end] = axis.range(stretch.from, Math.ceil(stretch.to));
    for (let node = first; node < end;) {
      const next = matches[firstAt(0, matches.length, i => matches[i] >= node)];
      if (next === undefined || next >= end) break;
      const x = this.xOf(next);
      c.fillRect(x, 0, Math.max(2, this.xOf(next + 1) - x), 7);
      node = Math.max(next + 1, axis.range(axis.placeOf(next) + this.perPixel, 0)[0]);
    }
  }
}

// The next power of two, so that an axis has round figures.
function niceBytes(bytes) { return 2 ** Math.max(0, Math.ceil(Math.log2(Math.max(1, bytes)))); }
