// --- A step: its nodes, and the live bytes at each

// The live bytes of a step, by kind.
class Profile {
  constructor(facts, columns) {
    this.name = facts.name;
    this.numNodes = facts.nodes;
    this.peakNode = facts.peak_node;
    this.kinds = facts.kinds; // those that occur
    this.live = facts.kinds.map(kind => columns.get(facts.prefix + "live." + kind));
    this.total = new Float64Array(this.numNodes);
    for (const of of this.live)
      for (let i = 0; i < of.length; ++i) this.total[i] += of[i];
    this.peakBytes = this.numNodes ? this.total[this.peakNode] : 0;
    this.readExtremes(columns.get(facts.prefix + "extremes"));
  }

  // By level, the nodes with the most and the least live bytes among 4, 16, 64 ... nodes.
  readExtremes(choices) {
    this.most = [];
    this.least = [];
    for (let size = Math.ceil(this.numNodes / 4), at = 0; at < choices.length; size = Math.ceil(size / 4)) {
      const below = this.most.length - 1;
      const most = new Uint32Array(size), least = new Uint32Array(size);
      for (let i = 0; i < size; ++i) {
        const choice = choices[at + i], high = 4 * i + (choice & 3), low = 4 * i + (choice >> 2);
        most[i] = below < 0 ? high : this.most[below][high];
        least[i] = below < 0 ? low : this.least[below][low];
      }
      this.most.push(most);
      this.least.push(least);
      at += size;
    }
  }

  // The node with the most live bytes among the nodes from `from` up to `to`.
  heaviest(from, to) {
    let best = from;
    for (let at = from; at < to;) {
      let level = -1, size = 1;
      while (level + 1 < this.most.length && at % (4 * size) === 0 && at + 4 * size <= to) {
        ++level;
        size *= 4;
      }
      const node = level < 0 ? at : this.most[level][at / size];
      if (this.total[node] > this.total[best]) best = node;
      at += size;
    }
    return best;
  }
}

// What is known of each node, value and block of memory.
class Step extends Profile {
  constructor(facts, columns) {
    super(facts, columns);
    const get = name => columns.get(facts.prefix + name);
    this.arenaBytes = facts.arena_bytes;
    this.figures = facts.figures || {};
    this.snapshot = facts.snapshot || null; // of an allocator; its nodes are events
    this.ops = facts.ops;
    this.types = facts.types;
    this.inputKinds = new Map(facts.inputs);
    this.opIndex = get("node.op");
    this.phase = get("node.phase");
    this.standIn = get("node.stand_in");
    this.us = get("node.us");
    this.result = get("node.result");
    this.sources = facts.sources || [];
    this.sourceIndex = this.sources.length ? get("node.source") : null;
    this.operandStarts = startsOf(get("node.operands"));
    this.operandValues = get("operands");
    this.typeIndex = get("value.type");
    this.makers = get("value.maker");
    this.originals = get("value.original");
    this.nameStarts = startsOf(get("value.name"));
    this.nameBytes = get("names");
    this.readerStarts = startsOf(get("value.readers"));
    this.readerNodes = get("readers");
    this.moduleNames = facts.modules;
    this.moduleParents = get("module.parent");
    this.moduleIsRange = get("module.is_range");
    this.moduleOf = get("node.module");
    this.blocks = new Blocks(facts, get, this);
    this.times = columns.has(facts.prefix + "node.begin") ? new NodeTimes(get, columns.head.step_ns) : null;
    this.axis = this.times ? new TimeAxis(this.times.begin, this.times.stepNs) : new NodeAxis(this.numNodes);
  }

  // --- Nodes
  nodeName(node) { return this.valueName(this.result[node]); }
  opName(node) { return this.ops[this.opIndex[node]].name; }
  sourceOf(node) { return this.sourceIndex ? this.sources[this.sourceIndex[node] - 1] || "" : ""; }
  isView(node) { return this.ops[this.opIndex[node]].view; }
  operandsOf(node) { return this.operandValues.subarray(this.operandStarts[node], this.operandStarts[node + 1]); }
  resultsOf(node) {
    const end = node + 1 < this.numNodes ? this.result[node + 1] : this.makers.length;
    const results = [];
    for (let v = this.result[node]; v < end && this.makers[v] === node + 1; ++v) results.push(v);
    return results;
  }
  // How the node takes part: the name of a stand-in, or else of its phase.
  get nodeWord() { return this.snapshot ? "event" : "node"; }
  wayText(way) { return this.snapshot && way >= PHASE_WAY[0] ? EVENT_TEXTS[way - PHASE_WAY[0]] : WAY_TEXTS[way]; }
  way(node) { return this.standIn[node] || PHASE_WAY[this.phase[node]]; }

  // --- Values
  valueName(value) {
    return this.decoder.decode(this.nameBytes.subarray(this.nameStarts[value], this.nameStarts[value + 1]));
  }
  allNames() { return this.decoder.decode(this.nameBytes); }
  typeText(value) { return this.types[this.typeIndex[value]]; }
  makerOf(value) { return this.makers[value] - 1; } // -1 for an input
  readersOf(value) { return this.readerNodes.subarray(this.readerStarts[value], this.readerStarts[value + 1]); }
  // The values that stand for the same value of the graph before the plan, in order.
  instancesOf(value) {
    const original = this.originals[value], found = [];
    this.originals.forEach((o, v) => {
      if (o === original && this.blocks.ofValue(v) >= 0) found.push(v);
    });
    return found;
  }
}
Step.prototype.decoder = new TextDecoder();

// When a device runs its nodes, by the simulator, and the bars of its schedule.
class NodeTimes {
  constructor(get, stepNs) {
    this.stepNs = stepNs;
    this.begin = get("node.begin");
    this.end = get("node.end");
    this.batch = get("node.batch"); // from 1; 0 for nodes of all micro-batches
    this.bars = {kind: get("bar.kind"), batch: get("bar.batch"), first: get("bar.first"), count: get("bar.count")};
  }
  get numBars() { return this.bars.kind.length; }
  barBegin(i) { return this.begin[this.bars.first[i]]; }
  barEnd(i) { return this.end[this.bars.first[i] + this.bars.count[i] - 1]; }
  barNodes(i) { return Array.from({length: this.bars.count[i]}, (_, k) => this.bars.first[i] + k); }
  // The bar at a time; -1 where the device waits.
  barAt(ns) {
    const i = firstAt(0, this.numBars, i => this.barEnd(i) > ns);
    return i < this.numBars && this.barBegin(i) <= ns ? i : -1;
  }
}

// Stretches of memory, in groups of like size and by their first node.
class Blocks {
  constructor(facts, get, step) {
    this.groups = facts.groups.map(([first, count, longest, largest]) => ({first, count, longest, largest}));
    this.kind = get("block.kind");
    this.value = get("block.value");
    this.maker = get("block.maker");
    this.offset = get("block.offset");
    this.bytes = get("block.bytes");
    this.begin = get("block.begin");
    this.end = get("block.length");
    this.count = this.kind.length;
    for (let i = 0; i < this.count; ++i) this.end[i] += this.begin[i];
    this.map = {...facts.map, kind: get("map.kind"), filled: get("map.filled")};
    this.byMaker = this.sortedByMaker(step.numNodes);
    this.byValue = new Int32Array(step.makers.length).fill(-1);
    for (let i = 0; i < this.count; ++i) {
      const v = this.value[i] - 1; // -1 for a workspace
      if (v >= 0 && (this.byValue[v] < 0 || this.begin[i] < this.begin[this.byValue[v]])) this.byValue[v] = i;
    }
  }

  sortedByMaker(numNodes) {
    const lengths = new Uint32Array(numNodes);
    for (const node of this.maker) ++lengths[node];
    this.makerStarts = startsOf(lengths);
    const next = this.makerStarts.slice(), sorted = new Uint32Array(this.count);
    for (let i = 0; i < this.count; ++i) sorted[next[this.maker[i]]++] = i;
    return sorted;
  }

  ofNode(node) { return this.byMaker.subarray(this.makerStarts[node], this.makerStarts[node + 1]); }
  ofValue(value) { return this.byValue[value]; } // the first; -1 if it has none
  isPlaced(i) { return this.offset[i] > 0; }
  offsetOf(i) { return this.offset[i] - 1; }

  // Calls `visit` for the blocks that live at nodes from `from` up to `to`, the largest groups
  // first. Groups whose blocks are all shorter or smaller than the least are left out, and so is
  // what comes after `most` blocks. Returns whether nothing was left out.
  visit(from, to, leastNodes, leastBytes, most, visit) {
    let isComplete = true;
    for (const g of this.groups) {
      if (g.longest < leastNodes || g.largest < leastBytes) {
        isComplete = false;
        continue;
      }
      for (let i = this.firstOf(g, from); i < g.first + g.count && this.begin[i] < to; ++i) {
        if (this.end[i] <= from) continue;
        if (most-- <= 0) return false;
        visit(i);
      }
    }
    return isComplete;
  }

  // No fewer than live at nodes from `from` up to `to`, found without looking at each.
  atMost(from, to) {
    return this.groups.reduce(
      (sum, g) => sum + firstAt(g.first, g.first + g.count, i => this.begin[i] >= to) - this.firstOf(g, from), 0);
  }
  // The first block of a group that may live at node `from` or later.
  firstOf(g, from) { return firstAt(g.first, g.first + g.count, i => this.begin[i] + g.longest > from); }

  liveAt(node) {
    const found = [];
    this.visit(node, node + 1, 0, 0, Infinity, i => found.push(i));
    return found.sort((a, b) => this.bytes[b] - this.bytes[a] || a - b);
  }
}

// The places at which two steps are equally far: maps nodes of one to nodes of the other.
class InStep {
  constructor(columns, step, other) {
    const get = name => columns.has(name) ? columns.get(name) : new Uint32Array(0); // a snapshot has no node of a graph
    this.a = get("same.a");
    this.b = get("same.b");
    this.ends = [step.numNodes, other.numNodes];
  }

  // Between two nodes that both steps have, places are in proportion.
  toOther(node) { return this.mapped(this.a, this.b, node, this.ends[0], this.ends[1]); }
  fromOther(node) { return this.mapped(this.b, this.a, node, this.ends[1], this.ends[0]); }

  mapped(from, to, node, fromEnd, toEnd) {
    const next = firstAt(0, from.length, i => from[i] > node);
    const a0 = next > 0 ? from[next - 1] : 0, b0 = next > 0 ? to[next - 1] : 0;
    const a1 = next < from.length ? from[next] : fromEnd, b1 = next < to.length ? to[next] : toEnd;
    return a1 > a0 ? b0 + (node - a0) * (b1 - b0) / (a1 - a0) : b0;
  }
}
