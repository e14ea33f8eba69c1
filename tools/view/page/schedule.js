// --- The schedule of a step over several devices: a row for each, a bar for what it does without a break

// By kind of work, as the program numbers them: the way that has its colour.
const WORK_WAYS = [8, 9, 10, 1, 6];

// The messages between devices.
class Messages {
  constructor(columns) {
    const get = name => columns.get("message." + name);
    this.from = get("from");
    this.to = get("to");
    this.send = get("send"); // the node of the sender
    this.bytes = get("bytes");
    this.begin = get("begin");
    this.end = get("end");
  }
  get count() { return this.from.length; }
}

class SchedulePanel extends StepPanel {
  static mostMessages = 3000; // drawn in a frame

  // `places`: what is shared of each device. `select(place, target)` lights something there.
  constructor(canvas, places, messages, theme, works, select) {
    super(canvas, places[0], theme);
    this.places = places;
    this.messages = messages;
    this.works = works;
    this.select = select;
    this.place = 0; // that the keys move from
  }

  get rowHeight() { return (this.height - 16) / this.places.length; }
  get barHeight() { return Math.max(3, Math.min(26, 0.62 * this.rowHeight)); }
  // The top of the bars of a device.
  topOf(place) { return place * this.rowHeight + (this.rowHeight - this.barHeight) / 2; }
  placeOfY(y) {
    const place = Math.floor(y / this.rowHeight);
    return place >= 0 && place < this.places.length ? place : -1;
  }

  paint(c) {
    this.paintNames(c);
    c.save();
    c.beginPath();
    c.rect(this.left, 0, this.plotWidth, this.height);
    c.clip();
    this.places.forEach((shared, place) => this.paintRow(c, shared, place));
    this.paintMessages(c);
    c.restore();
    this.paintStepAxis(c, "time");
  }

  paintNames(c) {
    if (this.rowHeight < 11) return;
    c.textAlign = "right";
    this.places.forEach(({step}, place) => {
      c.fillStyle = place === this.place ? this.theme.inks.ink : this.theme.inks.faint;
      c.fillText(fittingText(c, step.name, this.left - 10), this.left - 6, this.topOf(place) + this.barHeight / 2);
    });
    c.textAlign = "left";
  }

  // Where the device waits, the ground shows.
  paintRow(c, shared, place) {
    const {times} = shared.step, {from, to} = this.shared.stretch, y = this.topOf(place), height = this.barHeight;
    c.fillStyle = this.theme.inks.grid;
    c.fillRect(this.xAt(0), y, this.xAt(times.stepNs) - this.xAt(0), height);
    c.textAlign = "center";
    let drawn = -1; // bars that end in a pixel which is taken are left out
    for (let i = firstAt(0, times.numBars, i => times.barEnd(i) > from); i < times.numBars && times.barBegin(i) < to; ++i) {
      const x = this.xAt(times.barBegin(i)), right = this.xAt(times.barEnd(i));
      if (right < drawn) continue;
      drawn = Math.max(right, Math.floor(x) + 0.5);
      const colour = this.theme.way(WORK_WAYS[times.bars.kind[i]]), width = right - x;
      c.fillStyle = colour;
      c.fillRect(x, y, Math.max(0.5, width - (width > 3 ? 0.6 : 0)), height);
      const number = String(times.bars.batch[i] || "");
      if (number && height > 10 && width > 7 * number.length + 4) {
        c.fillStyle = inkOn(colour);
        c.fillText(number, (Math.max(x, this.left) + Math.min(right, this.left + this.plotWidth)) / 2, y + height / 2 + 0.5);
      }
    }
    c.textAlign = "left";
    this.paintOutlines(c, shared, y, height);
  }

  paintOutlines(c, {step, light, hovered}, y, height) {
    const outline = (begin, end, width) => {
      c.lineWidth = width;
      c.strokeStyle = this.theme.inks.lit;
      c.strokeRect(this.xAt(begin), y, Math.max(2, this.xAt(end) - this.xAt(begin)), height);
    };
    const {times} = step;
    if (light?.bar >= 0) outline(times.barBegin(light.bar), times.barEnd(light.bar), 2.5);
    else if (light?.node >= 0) outline(times.begin[light.node], times.end[light.node], 2);
    if (hovered?.bar >= 0) outline(times.barBegin(hovered.bar), times.barEnd(hovered.bar), 1.2);
  }

  // From the bars of the sender, when the message takes the link, to those of the receiver.
  lineOf(i) {
    const m = this.messages, isDown = m.from[i] < m.to[i];
    return [
      this.xAt(m.begin[i]), this.topOf(m.from[i]) + (isDown ? this.barHeight : 0), this.xAt(m.end[i]),
      this.topOf(m.to[i]) + (isDown ? 0 : this.barHeight)
    ];
  }
  paintMessages(c) {
    const m = this.messages, {from, to} = this.shared.stretch;
    c.strokeStyle = this.theme.inks.faint;
    c.lineWidth = 0.8;
    c.beginPath();
    for (let i = 0, drawn = 0; i < m.count && drawn < SchedulePanel.mostMessages; ++i) {
      if (m.end[i] < from || m.begin[i] > to) continue;
      const [x0, y0, x1, y1] = this.lineOf(i);
      c.moveTo(x0, y0);
      c.lineTo(x1, y1);
      ++drawn;
    }
    c.stroke();
  }

  // --- The pointer and the keys
  targetAt(x, y) {
    const place = this.placeOfY(y);
    if (x < this.left || place < 0) return null;
    const message = this.messageAt(x, y), top = this.topOf(place);
    const isOnBar = y >= top - 1 && y <= top + this.barHeight + 1;
    const bar = isOnBar ? this.places[place].step.times.barAt(this.placeAt(x)) : -1;
    if (bar >= 0) return {place, bar, block: -1, node: -1};
    if (message >= 0) return {place: this.messages.from[message], bar: -1, block: -1, node: this.messages.send[message], message};
    return isOnBar ? {place, bar: -1, block: -1, node: -1, waits: this.waitAt(place, this.placeAt(x))} : null;
  }
  // The message whose line is next to the pointer; -1 if none is near.
  messageAt(x, y) {
    let best = -1, least = 5;
    for (let i = 0; i < this.messages.count; ++i) {
      const [x0, y0, x1, y1] = this.lineOf(i), length = Math.hypot(x1 - x0, y1 - y0) || 1;
      const along = Math.max(0, Math.min(1, ((x - x0) * (x1 - x0) + (y - y0) * (y1 - y0)) / length ** 2));
      const far = Math.hypot(x - x0 - along * (x1 - x0), y - y0 - along * (y1 - y0));
      if (far < least) [best, least] = [i, far];
    }
    return best;
  }
  // From when until when the device waits.
  waitAt(place, ns) {
    const {times} = this.places[place].step, next = firstAt(0, times.numBars, i => times.barBegin(i) > ns);
    return [next > 0 ? times.barEnd(next - 1) : 0, next < times.numBars ? times.barBegin(next) : times.stepNs];
  }
  pointed(e) {
    const target = this.targetAt(e.offsetX, e.offsetY);
    this.places.forEach((shared, place) => shared.hover(target?.place === place ? target : null));
    if (target) Tip.show(this.tipFor(target), e.clientX, e.clientY);
    else Tip.hide();
    this.canvas.style.cursor = target && !target.waits ? "pointer" : "default";
  }
  tipFor({place, bar, message, waits}) {
    const {step} = this.places[place], {times} = step;
    if (waits) return [step.name + " waits", timeText((waits[1] - waits[0]) / 1000)];
    if (bar < 0) {
      const m = this.messages;
      return [
        shownName(step.valueName(step.operandsOf(m.send[message])[0])),
        step.name + " to " + this.places[m.to[message]].step.name + ", " + bytesText(m.bytes[message]),
        timeText((m.end[message] - m.begin[message]) / 1000) + " on the link"
      ];
    }
    const batch = times.bars.batch[bar];
    return [
      this.works[times.bars.kind[bar]] + (batch ? " of micro-batch " + batch : ""), step.name,
      timeText((times.barEnd(bar) - times.barBegin(bar)) / 1000) + ", " + countText(times.bars.count[bar], "node")
    ];
  }
  clicked(x, y) {
    const target = this.targetAt(x, y);
    if (!target || target.waits) return;
    this.place = target.place;
    this.select(target.place, target.bar >= 0 ? {bar: target.bar} : {node: target.node});
  }

  // Returns whether the key meant something.
  key(key) {
    const by = {ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0]}[key];
    if (!by) return false;
    const {light, step} = this.places[this.place], bar = light?.bar >= 0 ? light.bar : by[1] < 0 ? step.times.numBars : -1;
    if (by[0]) this.place = Math.max(0, Math.min(this.places.length - 1, this.place + by[0]));
    const {times} = this.places[this.place].step;
    // The next bar of the device, or that of another device at the same time.
    const at = bar >= 0 && bar < step.times.numBars ? step.times.barBegin(bar) : 0;
    const next = by[0] ? firstAt(0, times.numBars - 1, i => times.barEnd(i) > at) : bar + by[1];
    if (times.numBars) this.select(this.place, {bar: Math.max(0, Math.min(times.numBars - 1, next))});
    return true;
  }
}
