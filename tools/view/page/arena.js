// --- The arena: offsets over the step

class ArenaPanel extends StepPanel {
  // More rectangles than this are not drawn in a frame: the map of the whole arena, drawn below
  // them, stands for the smallest.
  static mostDrawn = 12000;

  // `all`: the bytes at the top of the panel, at the least.
  constructor(canvas, shared, theme, kinds, all = 1) {
    super(canvas, shared, theme);
    this.kinds = kinds;
    this.all = Math.max(all, shared.step.arenaBytes);
    this.low = 0; // the offsets in view
    this.high = this.all;
    this.map = null; // a picture of the whole arena, made when it is first needed
  }

  themed() { this.map = null; }
  yOf(offset) { return this.height * (1 - (offset - this.low) / (this.high - this.low)); }
  offsetAt(y) { return this.low + (1 - y / this.height) * (this.high - this.low); }

  paint(c) {
    this.paintBytesAxis(c, this.low, this.high, offset => this.yOf(offset));
    c.save();
    c.beginPath();
    c.rect(this.left, 0, this.plotWidth, this.height);
    c.clip();
    this.paintBlocks(c);
    this.paintLight(c);
    this.paintMarks(c, this.height);
    c.restore();
  }

  // All blocks in view, or where they are many those of at least about a pixel.
  blocksInView() {
    const {stretch, step} = this.shared, [from, to] = step.axis.range(stretch.from, Math.ceil(stretch.to));
    const found = [], pixels = step.blocks.atMost(from, to) > ArenaPanel.mostDrawn ? 0.7 : 0;
    const isComplete = step.blocks.visit(from, to, pixels * step.axis.nodesIn(this.perPixel),
      pixels * (this.high - this.low) / this.height, ArenaPanel.mostDrawn, i => {
        if (step.blocks.isPlaced(i) && step.blocks.offsetOf(i) < this.high &&
          step.blocks.offsetOf(i) + step.blocks.bytes[i] > this.low)
          found.push(i);
      });
    return {found, isComplete};
  }

  rectOf(i) {
    const b = this.shared.step.blocks, x = this.xOf(b.begin[i]);
    const low = this.yOf(b.offsetOf(i)), high = this.yOf(b.offsetOf(i) + b.bytes[i]);
    return [x, high, this.xOf(b.end[i]) - x, low - high];
  }

  paintBlocks(c) {
    const {found, isComplete} = this.blocksInView(), blocks = this.shared.step.blocks;
    if (!isComplete && !this.shared.step.times) this.paintMap(c); // its columns are nodes, not times
    const byKind = new Map();
    for (const i of found) {
      if (!byKind.has(blocks.kind[i])) byKind.set(blocks.kind[i], []);
      byKind.get(blocks.kind[i]).push(i);
    }
    const named = [];
    for (const [kind, list] of byKind) {
      c.fillStyle = this.theme.kind(kind);
      for (const i of list) {
        const [x, y, width, height] = this.rectOf(i);
        // A gap of a fraction of a pixel tells neighbours apart.
        c.fillRect(x, y, Math.max(0.7, width - (width > 3 ? 0.6 : 0)), Math.max(0.7, height - (height > 3 ? 0.6 : 0)));
        if (width > 50 && height > 13) named.push([i, x, y, width, height]);
      }
    }
    this.paintNames(c, named);
  }

  paintNames(c, named) {
    const blocks = this.shared.step.blocks;
    for (const [i, x, y, width, height] of named.slice(0, 300)) {
      const left = Math.max(x, this.left) + 4, room = Math.min(x + width, this.left + this.plotWidth) - left - 4;
      if (room < 40) continue;
      c.fillStyle = inkOn(this.theme.kind(blocks.kind[i]));
      c.fillText(fittingText(c, this.blockName(i), room), left, y + Math.min(height / 2, 9));
    }
  }

  blockName(i) {
    const step = this.shared.step, value = step.blocks.value[i] - 1;
    return value < 0 ? "workspace of " + shownName(step.nodeName(step.blocks.maker[i]))
                     : shownName(step.valueName(value));
  }

  paintMap(c) {
    this.map = this.map || this.makeMap();
    if (!this.map) return;
    const {stretch} = this.shared, {columns, rows} = this.shared.step.blocks.map;
    const perNode = columns / stretch.all, perByte = rows / this.all;
    c.imageSmoothingEnabled = false;
    c.drawImage(this.map, stretch.from * perNode, rows - this.high * perByte, stretch.width * perNode,
      (this.high - this.low) * perByte, this.left, 0, this.plotWidth, this.height);
  }

  makeMap() {
    const {columns, rows, kind, filled} = this.shared.step.blocks.map;
    if (!columns || !rows) return null;
    const canvas = document.createElement("canvas");
    canvas.width = columns;
    canvas.height = rows;
    const context = canvas.getContext("2d"), image = context.createImageData(columns, rows);
    const colours = KIND_COLOURS[this.theme.name].map(rgbOf);
    for (let column = 0, cell = 0; column < columns; ++column)
      for (let row = 0; row < rows; ++row, ++cell) {
        const at = 4 * ((rows - 1 - row) * columns + column);
        image.data.set(colours[kind[cell]], at);
        image.data[at + 3] = filled[cell];
      }
    context.putImageData(image, 0, 0);
    return canvas;
  }

  // Outlines of what is selected, and of what is under the pointer.
  paintLight(c) {
    const {light, hovered} = this.shared, inks = this.theme.inks;
    const outline = (i, width, dash) => {
      if (i < 0 || !this.shared.step.blocks.isPlaced(i)) return;
      const [x, y, w, h] = this.rectOf(i);
      c.setLineDash(dash);
      c.lineWidth = width + 2;
      c.strokeStyle = inks.page;
      c.strokeRect(x, y, Math.max(2, w), Math.max(2, h));
      c.lineWidth = width;
      c.strokeStyle = inks.lit;
      c.strokeRect(x, y, Math.max(2, w), Math.max(2, h));
      c.setLineDash([]);
    };
    if (light)
      for (const [i, how] of light.blocks)
        outline(i, how === "own" ? 2.5 : 1.3, how === "read" ? [2, 2] : how === "again" ? [5, 3] : []);
    if (hovered && hovered.block >= 0) outline(hovered.block, 1.5, []);
  }

  targetAt(x, y) {
    if (x < this.left) return null;
    const {step} = this.shared, offset = this.offsetAt(y), b = step.blocks;
    if (!step.numNodes) return null;
    const [from, to] = this.nodesAt(x);
    let best = -1;
    b.visit(from, to, 0, 0, 1e6, i => {
      const isHit = b.isPlaced(i) && b.offsetOf(i) <= offset && offset < b.offsetOf(i) + b.bytes[i];
      if (isHit && (best < 0 || b.end[i] - b.begin[i] > b.end[best] - b.begin[best])) best = i;
    });
    return best >= 0 ? {block: best, node: b.maker[best]} : null;
  }
  tipFor({block}) {
    const b = this.shared.step.blocks, value = b.value[block] - 1;
    const lines = [this.blockName(block), bytesText(b.bytes[block]) + ", " + this.kinds[b.kind[block]]];
    if (value >= 0) lines.splice(1, 0, this.shared.step.typeText(value));
    return lines;
  }
  clicked(x, y) {
    const target = this.targetAt(x, y);
    this.shared.select(target ? {block: target.block} : null);
  }

  dragged(dx, dy) {
    super.dragged(dx);
    const by = dy / this.height * (this.high - this.low);
    this.setOffsets(this.low + by, this.high + by);
  }
  wheeled(e) {
    if (!e.altKey) return super.wheeled(e);
    e.preventDefault();
    this.zoomOffsets(this.offsetAt(e.offsetY), Math.exp(e.deltaY / 400));
  }
  zoomOffsets(at, factor) { this.setOffsets(at - (at - this.low) * factor, at + (this.high - at) * factor); }
  setOffsets(low, high) {
    const span = Math.max(Math.min(4096, this.all), Math.min(this.all, high - low));
    this.low = Math.max(0, Math.min(this.all - span, low));
    this.high = this.low + span;
    this.request();
  }
}

function rgbOf(colour) { return [1, 3, 5].map(at => parseInt(colour.slice(at, at + 2), 16)); }

// Black or white, whichever is read more easily on the colour.
function inkOn(colour) {
  const [r, g, b] = rgbOf(colour);
  return 0.3 * r + 0.59 * g + 0.11 * b > 140 ? "#14181c" : "#ffffff";
}
