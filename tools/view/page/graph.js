// --- The graph: a row for each module or node; forward and backward side by side

class GraphPanel extends Panel {
  static rowHeight = 21;
  static headHeight = 20;
  static mostLinks = 1500; // drawn in a frame, the largest first

  constructor(shared, theme, modules) {
    super(byId("graph").querySelector("canvas"), shared, theme);
    this.colourBy = "way";
    this.lookAt(shared, modules);
  }

  // Shows another step.
  lookAt(shared, modules) {
    this.shared = shared;
    this.modules = modules;
    this.columns = (shared.step.snapshot ? EVENT_COLUMNS : COLUMNS).map((name, i) => ({name, i})).filter(({i}) => modules.hasColumn(i));
    this.scroll = 0;
    this.focus = -1; // the row that the keys move
    this.refold();
  }

  // To be called after modules were opened or closed.
  refold() {
    this.rows = this.modules.rows();
    this.focus = Math.min(this.focus, this.rows.length - 1);
    this.scaleOf = {};
    for (const key of ["time", "bytes"])
      this.scaleOf[key] = Math.max(1e-9,
        ...this.rows.filter(r => !r.isOpen)
          .map(r => Math.max(...this.columns.map(c => this.modules.cell(r, c.i)[key]))));
    this.links = [0, 2].map(column => this.linksIn(column));
    this.request();
  }

  // Bytes that go from row to row within a column, the largest first.
  linksIn(column) {
    const {modules, rows} = this, step = this.shared.step, sums = new Map();
    for (let node = 0; node < step.numNodes; ++node) {
      if (modules.columnOf(node) !== column) continue;
      const to = modules.rowOf(node);
      for (const v of step.operandsOf(node)) {
        const maker = step.makerOf(v);
        if (maker < 0 || modules.columnOf(maker) !== column) continue;
        const from = modules.rowOf(maker);
        if (from === to || from < 0 || to < 0) continue;
        const block = step.blocks.ofValue(v), key = from * rows.length + to;
        sums.set(key, (sums.get(key) || 0) + (block >= 0 ? step.blocks.bytes[block] : 0));
      }
    }
    return Array.from(sums, ([key, bytes]) => ({from: Math.floor(key / rows.length), to: key % rows.length, bytes}))
      .sort((a, b) => b.bytes - a.bytes);
  }

  // --- Geometry
  get nameWidth() { return Math.min(330, Math.max(110, 0.32 * this.width)); }
  get laneWidth() { return this.width < 500 ? 24 : 54; }
  boxOf(index) {
    const all = this.width - this.nameWidth - 2 * this.laneWidth, each = all / this.columns.length;
    return {x: this.nameWidth + this.laneWidth + index * each + 3, width: each - 6};
  }
  yOf(row) { return GraphPanel.headHeight + row * GraphPanel.rowHeight - this.scroll; }
  rowAt(y) {
    const row = Math.floor((y - GraphPanel.headHeight + this.scroll) / GraphPanel.rowHeight);
    return y >= GraphPanel.headHeight && row >= 0 && row < this.rows.length ? row : -1;
  }
  get visible() {
    const first = Math.max(0, Math.floor(this.scroll / GraphPanel.rowHeight));
    return [first, Math.min(this.rows.length, first + Math.ceil(this.height / GraphPanel.rowHeight) + 1)];
  }
  scrollBy(pixels) {
    this.scroll += pixels;
    this.keepInRange();
    this.request();
  }
  keepInRange() {
    const most = this.rows.length * GraphPanel.rowHeight + GraphPanel.headHeight + 8 - this.height;
    this.scroll = Math.max(0, Math.min(most, this.scroll));
  }
  reveal(row) {
    if (row < 0) return;
    const y = this.yOf(row);
    if (y < GraphPanel.headHeight) this.scrollBy(y - GraphPanel.headHeight - 40);
    else if (y + GraphPanel.rowHeight > this.height) this.scrollBy(y + GraphPanel.rowHeight - this.height + 40);
  }

  // --- Drawing
  paint(c) {
    this.keepInRange();
    this.findLit();
    const [first, last] = this.visible;
    this.paintGrounds(c, first, last);
    this.links.forEach((links, i) => this.paintLinks(c, links, first, last, i === 1));
    for (let row = first; row < last; ++row) this.paintRow(c, row);
    this.paintLitLinks(c);
    this.paintHead(c);
  }

  // By row: how it is lit.
  findLit() {
    const {light, hovered} = this.shared;
    this.lit = new Map();
    const add = (node, how) => {
      const row = this.modules.rowOf(node);
      if (row >= 0 && this.lit.get(row) !== "own") this.lit.set(row, how);
    };
    this.findFound();
    if (light?.bar >= 0) {
      for (const node of this.shared.step.times.barNodes(light.bar)) add(node, "read");
    } else if (light) {
      for (const node of light.readers) add(node, "read");
      add(light.node, "own");
    }
    this.ownColumn = light && light.node >= 0 ? this.modules.columnOf(light.node) : -1;
    this.hoveredRow = hovered && hovered.node >= 0 ? this.modules.rowOf(hovered.node) : -1;
  }

  // The rows that hold nodes found by the search.
  findFound() {
    const {matches} = this.shared;
    if (this.foundFor?.matches === matches && this.foundFor.rows === this.rows) return;
    this.foundFor = {matches, rows: this.rows};
    this.found = new Set(Array.from(matches || [], node => this.modules.rowOf(node)));
  }

  paintGrounds(c, first, last) {
    const inks = this.theme.inks;
    for (let row = first; row < last; ++row) {
      const y = this.yOf(row);
      if (row === this.hoveredRow || this.lit.has(row)) {
        c.fillStyle = inks.shade;
        c.fillRect(0, y, this.width, GraphPanel.rowHeight);
      }
      if (row === this.focus && document.activeElement === this.canvas) {
        c.strokeStyle = inks.faint;
        c.lineWidth = 1;
        c.strokeRect(0.5, y + 0.5, this.width - 1, GraphPanel.rowHeight - 1);
      }
      if (this.found.has(row)) {
        c.fillStyle = this.theme.way(1);
        c.fillRect(0, y + 2, 3, GraphPanel.rowHeight - 4);
      }
    }
  }

  paintRow(c, index) {
    const row = this.rows[index], y = this.yOf(index), middle = y + GraphPanel.rowHeight / 2, inks = this.theme.inks;
    const left = 8 + Math.min(row.depth, 12) * (this.width < 500 ? 8 : 12);
    if (row.node < 0) this.paintTriangle(c, left, middle, row.isOpen);
    c.fillStyle = this.lit.get(index) === "own" ? inks.lit : row.node < 0 ? inks.ink : inks.faint;
    c.font = (row.node < 0 || this.lit.get(index) === "own" ? "600 " : "") + "12px system-ui, sans-serif";
    c.fillText(fittingText(c, shownName(row.name), this.nameWidth - left - 16), left + 12, middle);
    c.font = "11px system-ui, sans-serif";
    if (!row.isOpen) this.columns.forEach((column, i) => this.paintBox(c, row, column.i, this.boxOf(i), y, index));
  }

  paintTriangle(c, x, y, isOpen) {
    c.fillStyle = this.theme.inks.faint;
    c.beginPath();
    if (isOpen) c.moveTo(x - 1, y - 3), c.lineTo(x + 8, y - 3), c.lineTo(x + 3.5, y + 4);
    else c.moveTo(x, y - 5), c.lineTo(x + 7, y), c.lineTo(x, y + 5);
    c.fill();
  }

  paintBox(c, row, column, box, y, index) {
    const cell = this.modules.cell(row, column);
    if (!cell.parts.length) return;
    const top = y + 2, height = GraphPanel.rowHeight - 4;
    const texts = this.boxTexts(row, cell), room = box.width - 8;
    const text = texts.find(t => c.measureText(t).width <= room) || fittingText(c, texts[0], room);
    for (const {x, width, colour} of this.grounds(cell, box)) {
      c.save();
      c.beginPath();
      c.rect(x, top, width, height);
      c.clip();
      c.fillStyle = colour;
      c.fillRect(x, top, width, height);
      c.fillStyle = inkOn(colour);
      c.fillText(text, box.x + 5, top + height / 2 + 0.5);
      c.restore();
    }
    if (this.lit.get(index) === "own" && column === this.ownColumn) {
      c.strokeStyle = this.theme.inks.lit;
      c.lineWidth = 2;
      c.strokeRect(box.x, top, box.width, height);
    }
  }

  // The stretches of a box, each with its colour.
  grounds(cell, box) {
    if (this.colourBy !== "way")
      return [{x: box.x, width: box.width, colour: this.theme.ramp(cell[this.colourBy] / this.scaleOf[this.colourBy])}];
    const parts = cell.nodes ? cell.parts.filter(p => p.nodes) : cell.parts.slice(0, 1);
    const all = parts.reduce((sum, p) => sum + p.nodes, 0) || 1;
    let x = box.x;
    return parts.map(p => {
      const width = box.width * (p.nodes || 1) / all;
      x += width;
      return {x: x - width, width, colour: this.theme.way(p.way)};
    });
  }

  // The texts of a box, from the longest to the shortest.
  boxTexts(row, cell) {
    // Views and transfers take no time of the device.
    const figure = this.colourBy === "bytes" ? bytesText(cell.bytes) : cell.time ? timeText(cell.time) : "";
    const isNode = row.node >= 0, step = this.shared.step;
    const texts = isNode ? [step.opName(row.node)] : [countText(cell.nodes, step.nodeWord), numberText(cell.nodes)];
    return figure ? [...texts.map(t => t + "  " + figure), ...isNode ? texts : [], figure] : texts;
  }

  // Arcs beside the first or the last column, for values that skip rows; lines to the next row.
  paintLinks(c, links, first, last, isRight) {
    const index = this.columns.findIndex(column => column.i === (isRight ? 2 : 0));
    if (index < 0) return;
    const box = this.boxOf(index), edge = isRight ? box.x + box.width : box.x;
    c.strokeStyle = this.theme.way(isRight ? 9 : 8);
    c.globalAlpha = 0.65;
    let drawn = 0;
    for (const {from, to, bytes} of links) {
      if (Math.max(from, to) < first || Math.min(from, to) >= last) continue;
      if (++drawn > GraphPanel.mostLinks) break;
      this.paintArc(c, edge, from, to, isRight ? 1 : -1, 0.8 + Math.log2(1 + bytes / 2 ** 20) / 5);
    }
    c.globalAlpha = 1;
  }

  paintArc(c, x, from, to, side, width) {
    const y0 = this.yOf(from) + GraphPanel.rowHeight / 2, y1 = this.yOf(to) + GraphPanel.rowHeight / 2;
    const bulge = Math.min(this.laneWidth - 4, 5 + 5 * Math.log2(1 + Math.abs(to - from))) * side;
    c.lineWidth = width;
    c.beginPath();
    c.moveTo(x, y0);
    c.bezierCurveTo(x + bulge * 1.33, y0, x + bulge * 1.33, y1, x, y1);
    c.stroke();
  }

  // Lines from the node that is selected to its readers, and to it from what it reads.
  paintLitLinks(c) {
    const {light, step} = this.shared;
    if (!light || light.node < 0) return;
    c.strokeStyle = this.theme.inks.lit;
    c.lineWidth = 1.4;
    const centre = (node, side) => {
      const index = this.columns.findIndex(column => column.i === this.modules.columnOf(node));
      const row = this.modules.rowOf(node), box = this.boxOf(index);
      return {row, x: side > 0 ? box.x + box.width : box.x, y: this.yOf(row) + GraphPanel.rowHeight / 2, index};
    };
    // Within the first column lines bend to the left, within others to the right.
    const join = (from, to) => {
      const across = Math.sign(centre(to, 1).index - centre(from, 1).index);
      const side = centre(from, 1).index > 0 ? 1 : -1;
      const a = centre(from, across || side), b = centre(to, across ? -across : side);
      if (a.row < 0 || b.row < 0 || a.row === b.row && a.index === b.index) return;
      c.beginPath();
      c.moveTo(a.x, a.y);
      if (Math.abs(b.index - a.index) > 1) this.passBetweenRows(c, a, b, 4 * across);
      else {
        const bend = across ? [20 * across, -20 * across] : [30 * side, 30 * side];
        c.bezierCurveTo(a.x + bend[0], a.y, b.x + bend[1], b.y, b.x, b.y);
      }
      c.stroke();
    };
    for (const reader of light.readers.slice(0, 200)) join(light.node, reader);
    if (light.block < 0)
      for (const v of step.operandsOf(light.node))
        if (step.makerOf(v) >= 0) join(step.makerOf(v), light.node);
  }

  // A line from `a` to `b` that crosses the columns between them above the row of `b`.
  passBetweenRows(c, a, b, gap) {
    const above = b.y - GraphPanel.rowHeight / 2;
    c.lineTo(a.x + gap, a.y);
    c.lineTo(a.x + gap, above);
    c.lineTo(b.x - gap, above);
    c.lineTo(b.x - gap, b.y);
    c.lineTo(b.x, b.y);
  }

  paintHead(c) {
    c.fillStyle = this.theme.inks.page;
    c.fillRect(0, 0, this.width, GraphPanel.headHeight);
    c.fillStyle = this.theme.inks.faint;
    this.columns.forEach((column, i) => {
      const box = this.boxOf(i);
      c.fillText(column.name, box.x + 2, GraphPanel.headHeight / 2);
    });
    c.fillText(countText(this.rows.length, "row"), 8, GraphPanel.headHeight / 2);
  }

  // --- The pointer and the keys
  targetAt(x, y) {
    const row = this.rowAt(y);
    return row < 0 ? null : {block: -1, node: this.rows[row].node, row};
  }
  tipFor({row}) {
    const r = this.rows[row], lines = [shownName(r.name)];
    if (r.node >= 0)
      lines.push(this.shared.step.opName(r.node) + ", node " + numberText(r.node + 1),
        this.shared.step.typeText(this.shared.step.result[r.node]));
    for (const column of this.columns) {
      const cell = this.modules.cell(r, column.i);
      if (cell.parts.length && r.node < 0)
        lines.push(column.name + ": " + countText(cell.nodes, this.shared.step.nodeWord) + ", " + timeText(cell.time) + ", makes " +
          bytesText(cell.bytes));
      else if (cell.parts.length) lines.push(timeText(cell.time) + ", makes " + bytesText(cell.bytes));
    }
    return lines;
  }
  clicked(x, y) {
    const row = this.rowAt(y);
    if (row < 0) return;
    this.focus = row;
    this.enter(row);
  }
  enter(row) {
    const r = this.rows[row];
    if (r.node >= 0) return this.shared.select({node: r.node});
    this.modules.toggle(r.module);
    this.refold();
  }
  dragged(dx, dy) { this.scrollBy(-dy); }
  wheeled(e) {
    if (e.ctrlKey) return;
    const before = this.scroll;
    this.scrollBy(e.deltaY * (e.deltaMode === 1 ? GraphPanel.rowHeight : 1));
    if (this.scroll !== before) e.preventDefault();
  }
  // Returns whether the key meant something.
  key(key) {
    const row = this.rows[this.focus];
    if (key === "ArrowDown" || key === "ArrowUp") {
      this.focus = Math.max(0, Math.min(this.rows.length - 1, this.focus + (key === "ArrowDown" ? 1 : -1)));
      this.reveal(this.focus);
    } else if (key === "ArrowRight" && row && row.node < 0 && !row.isOpen) this.enter(this.focus);
    else if (key === "ArrowLeft" && row && row.node < 0 && row.isOpen) this.enter(this.focus);
    else if (key === "Enter" && row) this.enter(this.focus);
    else return false;
    this.request();
    return true;
  }
}
