// --- Live bytes over the step

class ProfilePanel extends StepPanel {
  // `top`: the bytes at the top of the panel, at the least.
  constructor(canvas, shared, theme, {kinds, budget, other = null, inStep = null, top = 1}) {
    super(canvas, shared, theme);
    this.kinds = kinds;
    this.budget = budget;
    this.other = other; // a Profile, or null
    this.inStep = inStep;
    // A model to compare with has a stack of its own below; a step without a plan is a line.
    this.isSplit = other instanceof Step;
    const step = shared.step;
    this.top = 1.06 * Math.max(top, step.peakBytes, this.budget || 0, other ? other.peakBytes : 0);
  }

  get bottom() { return this.height - 16; }                             // of the plot
  get middle() { return this.isSplit ? this.bottom / 2 : this.bottom; } // of the stack of this step
  yOf(bytes) { return this.middle * (1 - bytes / this.top); }

  paint(c) {
    this.paintBytesAxis(c, 0, this.top, bytes => this.yOf(bytes));
    c.save();
    c.beginPath();
    c.rect(this.left, 0, this.plotWidth, this.bottom);
    c.clip();
    const columns = this.columns();
    this.paintStack(c, this.shared.step, columns, 0);
    if (this.isSplit) this.paintStack(c, this.other, this.columnsOfOther(columns), this.middle);
    else if (this.other) this.paintLine(c, this.columnsOfOther(columns));
    this.paintMarks(c, this.bottom);
    c.restore();
    this.paintBudget(c);
    this.paintPeak(c);
    if (this.isSplit) this.paintNamesOfBoth(c);
    this.paintStepAxis(c, this.shared.step.times ? "time" : this.shared.step.nodeWord);
  }

  // The stack of the heaviest node of each column of pixels, `down` pixels below the top one.
  paintStack(c, profile, columns, down) {
    const base = new Float64Array(columns.length);
    for (const {kind, live} of stackOf(profile)) {
      c.fillStyle = this.theme.kind(kind);
      columns.forEach((column, i) => {
        const bytes = live[column.node];
        if (!bytes) return;
        const low = this.yOf(base[i]), high = this.yOf(base[i] += bytes);
        c.fillRect(column.x, high + down, column.width, low - high);
      });
    }
  }

  // One for each pixel, or for each node where nodes are wider.
  columns() {
    const {stretch, step} = this.shared, columns = [];
    if (step.axis.nodesIn(this.perPixel) < 1 && !step.times) {
      for (let node = Math.floor(stretch.from); node < Math.min(stretch.to, step.numNodes); ++node) {
        const x = this.xOf(node);
        columns.push({x, width: this.xOf(node + 1) - x + 0.3, node, from: node, to: node + 1});
      }
      return columns;
    }
    for (let x = 0; x < this.plotWidth && step.numNodes; ++x) {
      const [from, to] = this.nodesAt(this.left + x);
      columns.push({x: this.left + x, width: 1.3, node: step.heaviest(from, to), from, to});
    }
    return columns;
  }

  // The nodes of the other step where it is equally far.
  columnsOfOther(columns) {
    return columns.map(({x, width, from, to}) => {
      const first = Math.min(this.other.numNodes - 1, Math.floor(this.inStep.toOther(from)));
      const last = Math.min(this.other.numNodes, Math.max(first + 1, Math.ceil(this.inStep.toOther(to))));
      return {x, width, node: this.other.heaviest(first, last)};
    });
  }

  // The live bytes of the other step, as a line.
  paintLine(c, columns) {
    const points = columns.map(({x, width, node}) => [x, width, this.yOf(this.other.total[node])]);
    for (const [colour, width] of [[this.theme.inks.page, 3.5], [this.theme.inks.other, 1.3]]) {
      c.strokeStyle = colour;
      c.lineWidth = width;
      c.beginPath();
      for (const [x, w, y] of points) {
        c.lineTo(x, y);
        c.lineTo(x + w, y);
      }
      c.stroke();
    }
  }

  paintBudget(c) {
    if (!this.budget) return;
    const y = Math.round(this.yOf(this.budget)) + 0.5, inks = this.theme.inks;
    c.strokeStyle = inks.budget;
    c.lineWidth = 1;
    c.setLineDash([6, 3]);
    c.beginPath();
    c.moveTo(this.left, y);
    c.lineTo(this.left + this.plotWidth, y);
    c.stroke();
    c.setLineDash([]);
    const text = "budget " + bytesText(this.budget);
    // The left end is for the names of two steps.
    const x = this.isSplit ? this.left + this.plotWidth - c.measureText(text).width - 6 : this.left + 6;
    this.label(c, text, x, y > 22 ? y - 9 : y + 10, inks.budget);
  }

  paintPeak(c) {
    const {step} = this.shared, x = this.xOf(step.peakNode + 0.5), y = this.yOf(step.peakBytes);
    if (!step.numNodes || x < this.left || x > this.left + this.plotWidth) return;
    c.fillStyle = this.theme.inks.ink;
    c.beginPath();
    c.moveTo(x, y - 1);
    c.lineTo(x - 5, y - 9);
    c.lineTo(x + 5, y - 9);
    c.fill();
    const text = "peak " + bytesText(step.peakBytes), width = c.measureText(text).width;
    const right = x + 10 + width < this.left + this.plotWidth;
    this.label(c, text, right ? x + 9 : x - 9 - width, Math.max(8, y - 8), this.theme.inks.ink);
  }

  paintNamesOfBoth(c) {
    c.fillStyle = this.theme.inks.grid;
    c.fillRect(this.left, Math.round(this.middle), this.plotWidth, 1);
    this.label(c, shownName(this.shared.step.name), this.left + 6, 8, this.theme.inks.ink);
    this.label(c, shownName(this.other.name) + ", peak " + bytesText(this.other.peakBytes), this.left + 6,
      this.middle + 10, this.theme.inks.ink);
  }

  // A text on a ground of its own.
  label(c, text, x, y, colour) {
    const width = c.measureText(text).width;
    c.globalAlpha = 0.8;
    c.fillStyle = this.theme.inks.page;
    c.fillRect(x - 3, y - 7, width + 6, 14);
    c.globalAlpha = 1;
    c.fillStyle = colour;
    c.fillText(text, x, y);
  }

  targetAt(x) { return x >= this.left && this.shared.step.numNodes ? {block: -1, node: this.heaviestAt(x)} : null; }
  // The node that is drawn at the pixel.
  heaviestAt(x) {
    return this.shared.step.heaviest(...this.nodesAt(x));
  }
  tipFor({node}) {
    const step = this.shared.step;
    const lines = [
      shownName(step.nodeName(node)), step.opName(node) + ", node " + numberText(node + 1),
      bytesText(step.total[node]) + " live"
    ];
    for (const {kind, live} of stackOf(step).reverse())
      if (live[node]) lines.push("  " + bytesText(live[node]) + " " + this.kinds[kind]);
    return lines;
  }
  clicked(x, y) {
    const target = this.targetAt(x, y);
    if (target) this.shared.select({node: target.node});
  }
}

// The kinds of a profile, from the bottom of the stack to its top.
function stackOf(profile) {
  return STACK_ORDER.map(kind => ({kind, live: profile.live[profile.kinds.indexOf(kind)]})).filter(k => k.live);
}
