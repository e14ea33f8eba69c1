// --- What all panels share: the stretch of nodes in view, the node looked at, what is selected

// The part of an axis, from `from` up to `to`, that the panels show.
class Stretch {
  constructor(axis) {
    this.all = axis.all;
    this.least = Math.min(axis.least, axis.all);
    this.from = 0;
    this.to = this.all;
  }
  get width() { return this.to - this.from; }
  isWhole() { return this.width >= this.all; }

  set(from, width) {
    width = Math.max(this.least, Math.min(this.all, width));
    this.from = Math.max(0, Math.min(this.all - width, from));
    this.to = this.from + width;
  }
  zoom(at, factor) { this.set(at - (at - this.from) * factor, this.width * factor); }
  pan(by) { this.set(this.from + by, this.width); }
  fit() { this.set(0, this.all); }
  // Moves as little as shows what lies from `first` up to `last`, widened if need be.
  show(first, last) {
    if (last - first > this.width) this.set(first, last - first);
    else if (first < this.from) this.set(first - this.width / 10, this.width);
    else if (last > this.to) this.set(last - 0.9 * this.width, this.width);
  }
}

// What belongs to a block, a node or a bar of the schedule, to be lit in all panels.
class Light {
  constructor(step, {block = -1, node = -1, bar = -1}) {
    this.block = block;
    this.bar = bar;
    this.node = block >= 0 ? step.blocks.maker[block] : node;
    this.value = block >= 0 ? step.blocks.value[block] - 1 : -1;
    this.readers = this.value >= 0 ? Array.from(step.readersOf(this.value)) : [];
    this.blocks = new Map(); // block -> how it is drawn: "own", "again", "read"
    this.anchor = bar >= 0 ? step.times.bars.first[bar] : this.node; // a node, to look at
    if (block >= 0) this.addTensor(step);
    else if (node >= 0) this.addNode(step);
    this.readerSet = new Set(this.readers);
  }

  addTensor(step) {
    this.instances = this.value >= 0 ? step.instancesOf(this.value) : [];
    for (const v of this.instances) this.blocks.set(step.blocks.ofValue(v), "again");
    this.blocks.set(this.block, "own");
  }

  addNode(step) {
    for (const v of step.operandsOf(this.node)) {
      const b = step.blocks.ofValue(v);
      if (b >= 0) this.blocks.set(b, "read");
    }
    for (const b of step.blocks.ofNode(this.node)) this.blocks.set(b, "own");
    for (const v of step.resultsOf(this.node)) this.readers.push(...step.readersOf(v));
  }
}

// One for each step that the page shows whole. Those of devices have one stretch of time.
class Shared {
  constructor(step, stretch) {
    this.step = step;
    this.stretch = stretch;
    this.cursor = step.peakNode; // the node that the list of live tensors is for
    this.light = null;           // what is selected
    this.hovered = null;         // what is under the pointer
    this.matches = null;         // nodes found by a search, in order; or null
    this.listeners = [];
  }

  // `listener(what)` is called after a change of "view", "light", "hover" or "cursor".
  listen(listener) { this.listeners.push(listener); }
  tell(what) {
    for (const listener of this.listeners) listener(what);
  }

  move(change) {
    change(this.stretch);
    this.tell("view");
  }
  hover(target) {
    const same = target?.block === this.hovered?.block && target?.node === this.hovered?.node &&
      target?.bar === this.hovered?.bar;
    if (same) return;
    this.hovered = target;
    this.tell("hover");
  }
  select(target) {
    this.light = target ? new Light(this.step, target) : null;
    if (this.light && this.light.anchor >= 0) this.cursor = this.light.anchor;
    this.tell("light");
  }
  moveCursor(node) {
    this.cursor = Math.max(0, Math.min(this.step.numNodes - 1, node));
    this.showNode(this.cursor);
    this.tell("cursor");
  }
  // Moves the stretch so that the node is in it.
  showNode(node) {
    const {axis} = this.step;
    this.stretch.show(axis.placeOf(node), axis.placeOf(node + 1));
  }
}
