// --- The axis that all panels of a step share

// Where nodes lie along the step. One device: node n from n up to n + 1.
class NodeAxis {
  constructor(numNodes) {
    this.numNodes = numNodes;
    this.all = Math.max(1, numNodes);
    this.least = 8; // the shortest stretch that panels show
  }
  placeOf(node) { return node; }
  // The nodes from one place up to another: the first, and the one behind the last.
  range(from, to) {
    const first = Math.max(0, Math.min(this.numNodes - 1, Math.floor(from)));
    return [first, Math.min(this.numNodes, Math.max(first + 1, Math.floor(to)))];
  }
  // So many nodes are as wide as a length of the axis.
  nodesIn(length) { return length; }
  niceStep(length) { return niceCount(length); }
  text(place) { return numberText(place); }
}

// Several devices: nanoseconds. A node lies where it begins, up to where the next one does.
class TimeAxis {
  constructor(begin, all) {
    this.begin = begin;
    this.all = Math.max(1, all);
    this.least = this.all / 1e4;
  }
  placeOf(node) {
    const n = Math.floor(node), at = this.beginOf(n);
    return node === n ? at : at + (node - n) * (this.beginOf(n + 1) - at);
  }
  beginOf(node) { return node < this.begin.length ? this.begin[node] : this.all; }
  range(from, to) {
    const count = this.begin.length, next = firstAt(0, count, n => this.begin[n] >= from);
    const first = Math.max(0, Math.min(count - 1, next < count && this.begin[next] === from ? next : next - 1));
    return [first, Math.max(first + 1, firstAt(first, count, n => this.begin[n] >= to))];
  }
  nodesIn() { return 0; }
  niceStep(length) { return niceCount(length); }
  text(place) { return timeText(place / 1000); }
}

// The next of 1, 2, 5, 10, 20 ...
function niceCount(count) {
  const scale = 10 ** Math.floor(Math.log10(Math.max(1, count)));
  return [1, 2, 5, 10].find(f => f * scale >= count) * scale;
}
