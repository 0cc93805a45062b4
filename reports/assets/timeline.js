// The timeline: lanes of marks on a canvas, an overview with a ruler above them. The marks come in levels; the coarsest
// one that the eye cannot tell from the spans is drawn, and only what is in view, so that a million spans stay fluent.
(() => {
  const source = document.getElementById("timeline-data"), figure = document.getElementById("timeline-figure");
  if (!source || !figure) return;
  const data = JSON.parse(source.textContent);
  source.remove();
  const [head, body] = ["timeline-head", "timeline-body"].map((id) => document.getElementById(id));
  const scroller = body.parentElement, detail = document.getElementById("timeline-detail"), tip = document.getElementById("timeline-tip");
  const find = document.getElementById("timeline-find"), found = document.getElementById("timeline-found");
  const { say } = report;
  const root = document.documentElement;
  const NARROW = 640, OVERVIEW = 30, RULER = 22, GROUP = 22, LABEL = 14, GAP = 3;
  const HEIGHT = { kernel: 22, copy: 18, api: 15, nvtx: 15 };
  const LEAST = 20; // nanoseconds in view at most zoomed in

  // Columns of numbers, seven bits a byte (reports/timeline_data.py); read when they are first drawn.
  const unpack = (packed) => {
    const text = atob(packed.data), bytes = new Uint8Array(text.length);
    for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
    const lane = { n: packed.n };
    let at = 0;
    for (const column of packed.columns) {
      const values = new Float64Array(packed.n);
      for (let i = 0; i < packed.n; i++) {
        let value = 0, scale = 1, byte;
        do { byte = bytes[at++]; value += (byte & 127) * scale; scale *= 128; } while (byte & 128);
        values[i] = value;
      }
      lane[column] = values;
    }
    const zeros = new Float64Array(packed.n);
    for (const column of ["start", "time", "name", "depth", "more", "busy", "untimed"]) lane[column] = lane[column] || zeros;
    const start = new Float64Array(packed.n), reach = new Float64Array(packed.n), parts = [];
    let sum = 0;
    for (let i = 0; i < packed.n; i++) {
      const step = lane.start[i];
      sum += packed.signed ? (step % 2 ? -(step + 1) / 2 : step / 2) : step;
      start[i] = sum;
      const first = i === 0 || lane.depth[i] !== lane.depth[i - 1]; // a line of nested spans begins
      if (first) parts.push({ from: i, to: packed.n, depth: lane.depth[i] });
      if (first && parts.length > 1) parts[parts.length - 2].to = i;
      const end = sum + lane.time[i];
      reach[i] = first ? end : Math.max(reach[i - 1], end); // until when anything so far reaches: it only grows
    }
    return Object.assign(lane, { start, reach, parts });
  };
  const cache = data.levels.map((level) => level.map(() => null));
  const marks = (level, lane) => cache[level][lane] || (cache[level][lane] = unpack(data.levels[level][lane]));
  const search = (values, from, to, wanted) => { // the first index whose value is above
    while (from < to) { const middle = (from + to) >> 1; if (values[middle] > wanted) to = middle; else from = middle + 1; }
    return from;
  };

  // The view, in nanoseconds of the trace.
  const whole = { from: data.begin, to: data.end }, home = { from: data.home[0], to: data.home[1] };
  let view = { ...home }, picked = null, hovered = null, wanted = null, width = 900, left = 150, rows = [];
  const zoomed = () => view.from > whole.from || view.to < whole.to;
  const atHome = () => view.from === home.from && view.to === home.to;
  const scale = () => (width - left) / (view.to - view.from);
  const x = (time) => left + (time - view.from) * scale();
  const time = (px) => view.from + (px - left) / scale();
  const levelNow = () => {
    const perPixel = 1 / scale();
    let level = 0;
    data.resolutions.forEach((resolution, i) => { if (resolution <= perPixel) level = i; });
    return level;
  };
  const look = (from, to) => {
    const room = Math.min(Math.max(to - from, LEAST), whole.to - whole.from);
    const begin = Math.min(Math.max(from, whole.from), whole.to - room);
    view = { from: begin, to: begin + room };
    draw();
    remember();
  };
  const zoom = (factor, at = (view.from + view.to) / 2) => look(at - (at - view.from) / factor, at + (view.to - at) / factor);
  const pan = (share) => { const by = (view.to - view.from) * share; look(view.from + by, view.to + by); };
  let later = 0;
  const remember = () => { clearTimeout(later); later = setTimeout(() => report.writeLink(), 250); };

  // Words.
  const unit = (ns) => (ns >= 1e9 ? [1e9, "s"] : ns >= 1e6 ? [1e6, "ms"] : ns >= 1e3 ? [1e3, "µs"] : [1, "ns"]);
  const duration = (ns) => { const [by, name] = unit(ns); return (ns / by).toFixed(by === 1 ? 0 : 3).replace(/(\.\d*?)0+$/, "$1").replace(/\.$/, "") + " " + name; };
  const moment = (ns) => (ns / 1e6).toFixed(3) + " ms";
  const amount = (bytes) => { for (const [by, name] of [[1e9, "GB"], [1e6, "MB"], [1e3, "kB"]]) if (bytes >= by) return (bytes / by).toPrecision(4) + " " + name; return bytes + " B"; };
  const names = data.names.map((name) => {
    let depth = 0, text = "";
    for (const c of name.replace(/^(?:void|int|float|double|bool) (?=\S)/, "").replace(/<unnamed>::|\(anonymous namespace\)::/g, "")) {
      if (c === "<" || c === "(") depth++;
      else if (c === ">" || c === ")") depth--;
      else if (depth <= 0) text += c;
    }
    return text.trim() || name;
  });
  const caption = (kind, all, i) => {
    if (all.more[i]) return all.more[i] + 1 + " spans";
    return kind === "copy" && all.bytes && all.bytes[i] && all.time[i] ? amount(all.bytes[i]) + " at " + (all.bytes[i] / all.time[i]).toPrecision(3) + " GB/s" : names[all.name[i]];
  };
  const MEMORY = ["", "pageable", "pinned", "managed", ""];
  const describe = ({ lane, level, i }, full) => {
    const all = marks(level, lane), more = all.more[i], time = all.time[i], lines = [];
    if (more) {
      lines.push(more + 1 + " spans in " + duration(time) + ", " + Math.round(100 * all.busy[i] / Math.max(time, 1)) + " % covered");
      lines.push("longest: " + (full ? data.names[all.name[i]] : names[all.name[i]]));
    } else {
      lines.push(full ? data.names[all.name[i]] : names[all.name[i]]);
      lines.push((all.untimed[i] ? "its duration is not known" : duration(time)) + " at " + moment(all.start[i]));
      const bytes = all.bytes ? all.bytes[i] : 0;
      if (bytes) lines.push(amount(bytes) + (time ? " at " + (bytes / time).toPrecision(4) + " GB/s" : "") + (all.memory && MEMORY[all.memory[i]] ? ", " + MEMORY[all.memory[i]] + " memory" : ""));
      if (all.late && all.late[i]) lines.push("its call began " + duration(all.late[i] - 1) + " before");
    }
    return [...lines, data.lanes[lane].group + ", " + data.lanes[lane].label];
  };

  // Colours come from the style sheet; a kernel keeps its own whatever is in view.
  const PALETTE = ["c0", "c4", "c5", "c6", "c3"];
  const hash = (text) => { let sum = 7; for (let i = 0; i < text.length; i++) sum = (sum * 31 + text.charCodeAt(i)) >>> 0; return sum; };
  const ofName = names.map((name) => (name === "memset" ? "c7" : PALETTE[hash(name) % PALETTE.length])); // none that copies have
  const DIRECTION = { 1: "c2", 2: "c1" };
  let paint = {};
  const readColours = () => {
    const style = getComputedStyle(root);
    for (const name of ["paper", "raised", "ink", "ink2", "muted", "rule", "hair", "accent", "warn", "c0", "c1", "c2", "c3", "c4", "c5", "c6", "c7"]) paint[name] = style.getPropertyValue("--" + name).trim() || "#888";
    paint.font = getComputedStyle(document.body).fontFamily;
  };
  const colour = (kind, all, i) => {
    if (kind === "copy") return paint[DIRECTION[all.direction ? all.direction[i] : 0] || "c7"];
    if (kind === "api") return all.class && all.class[i] ? paint.warn : paint.c7;
    return paint[ofName[all.name[i]]];
  };

  // Where each lane lies; a narrow page has the lanes' names above them instead of beside.
  const layout = () => {
    width = scroller.clientWidth || 900;
    const narrow = width < NARROW;
    left = narrow ? 0 : 150;
    rows = [];
    let y = 4, group = "";
    data.lanes.forEach((lane, number) => {
      if (lane.group !== group) {
        group = lane.group;
        rows.push({ heading: group, y });
        y += GROUP;
      }
      if (narrow) y += LABEL;
      const line = HEIGHT[lane.kind];
      rows.push({ lane: number, y, line, height: line * lane.lines, kind: lane.kind, label: lane.label });
      y += line * lane.lines + GAP;
    });
    for (const [canvas, height] of [[head, OVERVIEW + RULER], [body, y + 4]]) {
      const ratio = window.devicePixelRatio || 1;
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
      canvas.style.width = width + "px";
      canvas.style.height = height + "px";
    }
  };
  const context = (canvas) => {
    const pen = canvas.getContext("2d"), ratio = canvas.width / width;
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, width, canvas.height);
    pen.textBaseline = "middle";
    return pen;
  };
  const fit = (pen, text, room) => {
    if (pen.measureText(text).width <= room) return text;
    const most = Math.floor(room / 6) - 1;
    return most < 2 ? "" : text.slice(0, most) + "…";
  };

  const ticks = () => {
    const most = Math.max(2, Math.floor((width - left) / 110)), step = (view.to - view.from) / most;
    const power = 10 ** Math.floor(Math.log10(step)), by = [1, 2, 5, 10].map((f) => f * power).find((one) => one >= step);
    const list = [];
    for (let at = Math.ceil(view.from / by) * by; at <= view.to; at += by) list.push(at);
    const [divisor, name] = unit(Math.max(by * 2, Math.min(view.to, by * 1e5)));
    const digits = Math.max(0, Math.min(6, Math.ceil(-Math.log10(by / divisor) - 1e-9)));
    return list.map((at) => [at, (at / divisor).toFixed(digits) + " " + name]);
  };
  const drawHead = () => {
    const pen = context(head), room = width - left, all = whole.to - whole.from;
    const at = (ns) => left + (ns - whole.from) / all * room;
    pen.fillStyle = paint.raised;
    pen.fillRect(left, 0, room, OVERVIEW);
    data.devices.forEach((device, number) => { // busy share over the whole trace, one strip a device
      const high = OVERVIEW / data.devices.length, low = (number + 1) * high, bar = room / device.busy.length;
      pen.fillStyle = paint.c0;
      device.busy.forEach((share, i) => { if (share) pen.fillRect(left + i * bar, low - share / 100 * (high - 1), bar + 0.3, share / 100 * (high - 1)); });
    });
    if (zoomed()) {
      const [from, to] = [at(view.from), Math.max(at(view.to), at(view.from) + 3)];
      pen.fillStyle = paint.paper;
      pen.globalAlpha = 0.72;
      pen.fillRect(left, 0, from - left, OVERVIEW);
      pen.fillRect(to, 0, width - to, OVERVIEW);
      pen.globalAlpha = 1;
      pen.strokeStyle = paint.accent;
      pen.lineWidth = 1.5;
      pen.strokeRect(from + 0.75, 0.75, Math.max(2, to - from - 1.5), OVERVIEW - 1.5);
    }
    pen.font = "11px " + paint.font;
    pen.fillStyle = paint.muted;
    if (left) {
      pen.textAlign = "left";
      pen.fillText("whole trace", 0, OVERVIEW / 2);
      pen.fillText("in view: " + duration(view.to - view.from), 0, OVERVIEW + RULER / 2);
    }
    pen.textAlign = "center";
    for (const [ns, text] of ticks()) {
      pen.fillRect(x(ns), OVERVIEW + RULER - 5, 1, 5);
      const half = pen.measureText(text).width / 2;
      if (x(ns) - half > left && x(ns) + half < width) pen.fillText(text, x(ns), OVERVIEW + RULER / 2 - 1);
    }
    pen.textAlign = "left";
  };
  const drawLane = (pen, row, level) => {
    const all = marks(level, row.lane), k = scale();
    for (const part of all.parts) {
      const y = row.y + part.depth * row.line, high = row.line - 2;
      let painted = -1; // the last column in which something thinner than a pixel was drawn
      for (let i = search(all.reach, part.from, part.to, view.from); i < part.to && all.start[i] < view.to; i++) {
        const from = Math.max(left, left + (all.start[i] - view.from) * k), to = Math.min(width, left + (all.start[i] + all.time[i] - view.from) * k);
        if (to < left) continue;
        let wide = to - from;
        if (wide < 1) {
          const column = Math.floor(from * 2);
          if (column === painted && !wanted) continue;
          painted = column;
          wide = 1;
        }
        const dim = wanted && !wanted.has(all.name[i]);
        pen.globalAlpha = dim ? 0.13 : all.more[i] ? 0.3 + 0.6 * Math.min(1, all.busy[i] / Math.max(all.time[i], 1)) : row.kind === "nvtx" ? 0.62 : 1;
        pen.fillStyle = colour(row.kind, all, i);
        pen.fillRect(from, y, wide > 3 ? wide - 0.6 : wide, high);
        if (wide > 34 && !dim) {
          pen.globalAlpha = 1;
          pen.fillStyle = row.kind === "nvtx" || all.more[i] ? paint.ink : paint.paper;
          pen.fillText(fit(pen, caption(row.kind, all, i), wide - 8), from + 4, y + high / 2 + 0.5);
        }
      }
    }
    pen.globalAlpha = 1;
  };
  const outline = (pen, mark, style) => {
    const row = rows.find((one) => one.lane === mark.lane), all = marks(mark.level, mark.lane);
    const from = x(all.start[mark.i]), to = x(all.start[mark.i] + all.time[mark.i]);
    if (to < left || from > width) return null;
    const y = row.y + all.depth[mark.i] * row.line, begin = Math.max(left, from);
    pen.strokeStyle = style;
    pen.lineWidth = 2;
    pen.strokeRect(begin - 1, y - 1, Math.max(3, Math.min(width, to) - begin + 2), row.line);
    return { x: from, y, height: row.line - 2 };
  };
  /** An arrow from the call to what it asked for. */
  const arrow = (pen) => {
    const all = marks(picked.level, picked.lane);
    if (!all.late || !all.late[picked.i] || !all.caller || !all.caller[picked.i]) return;
    const from = rows.find((one) => one.lane === all.caller[picked.i] - 1), to = rows.find((one) => one.lane === picked.lane);
    const [x0, x1] = [x(all.start[picked.i] - all.late[picked.i] + 1), x(all.start[picked.i])], [y0, y1] = [from.y, to.y + to.line - 2];
    pen.strokeStyle = paint.ink;
    pen.lineWidth = 1.2;
    pen.beginPath();
    pen.moveTo(x0, y0);
    pen.bezierCurveTo(x0, (y0 + y1) / 2, x1, (y0 + y1) / 2, x1, y1);
    pen.stroke();
    pen.fillStyle = paint.ink;
    pen.beginPath();
    pen.arc(x0, y0, 2.5, 0, 7);
    pen.fill();
  };
  const drawBody = () => {
    const pen = context(body), level = levelNow();
    const top = scroller.scrollTop - 40, bottom = scroller.scrollTop + scroller.clientHeight + 40;
    pen.save();
    pen.beginPath();
    pen.rect(left, 0, width - left, body.height);
    pen.clip();
    pen.fillStyle = paint.hair;
    for (const [ns] of ticks()) pen.fillRect(Math.round(x(ns)), 0, 1, body.height);
    pen.font = "11px " + paint.font;
    for (const row of rows) if (row.lane !== undefined && (printing || (row.y + row.height > top && row.y < bottom))) drawLane(pen, row, level);
    if (hovered && !(picked && same(hovered, picked))) outline(pen, hovered, paint.muted);
    if (picked) {
      outline(pen, picked, paint.ink);
      arrow(pen);
    }
    pen.restore();
    for (const row of rows) {
      if (row.heading) {
        pen.font = "600 12px " + paint.font;
        pen.fillStyle = paint.ink2;
        const device = data.devices.find((one) => "GPU " + one.device === row.heading);
        pen.fillText(row.heading + (device && device.name ? "  " + device.name : ""), 0, row.y + GROUP / 2);
      } else {
        pen.font = "11.5px " + paint.font;
        pen.fillStyle = paint.muted;
        if (left) pen.fillText(fit(pen, row.label, left - 12), 4, row.y + row.line / 2);
        else pen.fillText(row.label, 0, row.y - LABEL / 2);
      }
    }
  };
  let asked = 0, printing = false;
  const drawNow = () => { asked = 0; drawHead(); drawBody(); };
  const draw = () => { if (!asked) asked = requestAnimationFrame(drawNow); };
  const redo = () => { readColours(); layout(); drawNow(); };

  // Under the pointer.
  const same = (a, b) => a && b && a.lane === b.lane && a.level === b.level && a.i === b.i;
  const markAt = (px, py) => {
    const row = rows.find((one) => one.lane !== undefined && py >= one.y && py < one.y + one.height);
    if (!row || px < left) return null;
    const level = levelNow(), all = marks(level, row.lane), depth = Math.floor((py - row.y) / row.line);
    const slack = 2 / scale(), at = time(px);
    let best = null, near = Infinity;
    for (const part of all.parts) {
      if (part.depth !== depth) continue;
      for (let i = search(all.reach, part.from, part.to, at - slack); i < part.to && all.start[i] <= at + slack; i++) {
        const away = Math.max(all.start[i] - at, at - all.start[i] - all.time[i], 0);
        if (away <= near && away <= slack) { near = away; best = { lane: row.lane, level, i }; }
      }
    }
    return best;
  };
  const showTip = (mark, event) => {
    tip.hidden = !mark;
    if (!mark) return;
    tip.textContent = describe(mark, false).join("\n");
    const box = figure.getBoundingClientRect(), size = tip.getBoundingClientRect();
    tip.style.left = Math.max(0, Math.min(event.clientX - box.left + 14, box.width - size.width - 4)) + "px";
    const over = event.clientY + 20 + size.height > innerHeight;
    tip.style.top = event.clientY - box.top + (over ? -size.height - 12 : 16) + "px";
  };
  const hover = (event) => {
    const box = body.getBoundingClientRect(), mark = markAt(event.clientX - box.left, event.clientY - box.top);
    if (!same(mark, hovered) || !mark !== !hovered) { hovered = mark; draw(); }
    body.style.cursor = mark ? "pointer" : "grab";
    showTip(mark, event);
  };
  const pick = (mark, spoken = true) => {
    picked = mark;
    detail.hidden = !mark;
    if (mark) {
      const lines = describe(mark, true);
      detail.replaceChildren(...lines.map((line, i) => Object.assign(document.createElement(i ? "span" : "strong"), { textContent: line })));
      const all = marks(mark.level, mark.lane), button = Object.assign(document.createElement("button"), { type: "button", className: "quiet-button", textContent: "Zoom to it" });
      button.addEventListener("click", () => frame(mark));
      detail.append(button);
      if (spoken) say(describe(mark, false).join(", "));
      if (all.more[mark.i] && mark.level === 0) detail.append(Object.assign(document.createElement("span"), { textContent: "The spans of this mark are not in the page." }));
    }
    draw();
    remember();
  };
  const frame = (mark) => {
    const all = marks(mark.level, mark.lane), start = all.start[mark.i], room = Math.max(all.time[mark.i], LEAST);
    look(start - room * 0.6, start + room * 1.6);
  };
  const into = (mark) => { // keep the mark in view
    const all = marks(mark.level, mark.lane), start = all.start[mark.i], end = start + all.time[mark.i], room = view.to - view.from;
    if (end < view.from || start > view.to) look((start + end - room) / 2, (start + end + room) / 2);
    const row = rows.find((one) => one.lane === mark.lane);
    if (row.y < scroller.scrollTop || row.y + row.height > scroller.scrollTop + scroller.clientHeight) scroller.scrollTop = row.y - 40;
  };

  // Pointer: drag moves, Shift and drag chooses a stretch, two fingers zoom, Ctrl and the wheel zoom, the wheel alone is the page's.
  const held = new Map();
  let drag = null;
  body.addEventListener("pointerdown", (event) => {
    if (event.button) return;
    held.set(event.pointerId, event.clientX);
    drag = { x: event.clientX, view: { ...view }, moved: false, chooses: event.shiftKey, spread: held.size === 2 ? spread() : 0 };
    body.setPointerCapture(event.pointerId);
    tip.hidden = true;
  });
  const spread = () => { const [a, b] = [...held.values()]; return { middle: (a + b) / 2 - body.getBoundingClientRect().left, room: Math.max(20, Math.abs(a - b)) }; };
  body.addEventListener("pointermove", (event) => {
    if (!drag) { hover(event); return; }
    held.set(event.pointerId, event.clientX);
    const by = event.clientX - drag.x, room = drag.view.to - drag.view.from;
    if (Math.abs(by) > 3) drag.moved = true;
    if (!drag.moved && held.size < 2) return;
    if (held.size === 2 && drag.spread) {
      const now = spread(), factor = drag.spread.room / now.room, at = drag.view.from + (drag.spread.middle - left) / (width - left) * room;
      look(at - (now.middle - left) / (width - left) * room * factor, at + (width - now.middle) / (width - left) * room * factor);
    } else if (drag.chooses) {
      drawNow();
      const pen = body.getContext("2d");
      pen.fillStyle = paint.accent;
      pen.globalAlpha = 0.18;
      pen.fillRect(Math.min(drag.x, event.clientX) - body.getBoundingClientRect().left, 0, Math.abs(by), body.height);
      pen.globalAlpha = 1;
    } else look(drag.view.from - by / (width - left) * room, drag.view.to - by / (width - left) * room);
  });
  const release = (event) => {
    held.delete(event.pointerId);
    if (!drag) return;
    const box = body.getBoundingClientRect();
    if (drag.chooses && drag.moved && event.type === "pointerup") {
      const ends = [time(drag.x - box.left), time(event.clientX - box.left)].sort((a, b) => a - b);
      look(...ends);
    } else if (!drag.moved && event.type === "pointerup") pick(markAt(event.clientX - box.left, event.clientY - box.top));
    drag = null;
  };
  for (const kind of ["pointerup", "pointercancel"]) body.addEventListener(kind, release);
  body.addEventListener("pointerleave", () => { if (!drag) { hovered = null; tip.hidden = true; draw(); } });
  body.addEventListener("dblclick", (event) => {
    const box = body.getBoundingClientRect(), mark = markAt(event.clientX - box.left, event.clientY - box.top);
    if (mark) frame(mark);
    else zoom(4, time(event.clientX - box.left));
  });
  body.addEventListener("wheel", (event) => {
    const across = event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY);
    if (!(event.ctrlKey || event.metaKey || across)) return;
    event.preventDefault();
    if (across && !event.ctrlKey && !event.metaKey) pan((event.deltaX || event.deltaY) / (width - left));
    else zoom(Math.exp(-event.deltaY / (event.deltaMode ? 20 : 300)), time(event.clientX - body.getBoundingClientRect().left));
  }, { passive: false });
  let steering = false;
  const steer = (event) => {
    const at = whole.from + (event.clientX - head.getBoundingClientRect().left - left) / (width - left) * (whole.to - whole.from), room = view.to - view.from;
    look(at - room / 2, at + room / 2);
  };
  head.addEventListener("pointerdown", (event) => { steering = true; head.setPointerCapture(event.pointerId); steer(event); });
  head.addEventListener("pointermove", (event) => { if (steering) steer(event); });
  for (const kind of ["pointerup", "pointercancel"]) head.addEventListener(kind, () => { steering = false; });

  // Keys: W and S zoom, A and D move, as trace viewers have it; the arrows walk from span to span and from lane to lane.
  const order = data.lanes.map((_, i) => i);
  const nearest = (lane, level, at) => {
    const all = marks(level, lane);
    let best = 0;
    for (const part of all.parts.slice(0, 1)) best = Math.max(part.from, Math.min(part.to - 1, search(all.start, part.from, part.to, at)));
    return { lane, level, i: best };
  };
  const step = (by) => {
    const level = levelNow();
    if (!picked || picked.level !== level) { go(nearest(picked ? picked.lane : order[0], level, picked ? marks(picked.level, picked.lane).start[picked.i] - 1 : view.from - 1)); return; }
    const all = marks(level, picked.lane), i = picked.i + by;
    if (i >= 0 && i < all.n) go({ ...picked, i });
  };
  const climb = (by) => {
    const lane = picked ? picked.lane + by : 0;
    if (lane < 0 || lane >= data.lanes.length) return;
    const at = picked ? marks(picked.level, picked.lane).start[picked.i] : view.from;
    go(nearest(lane, levelNow(), at - 1));
  };
  const go = (mark) => { if (marks(mark.level, mark.lane).n) { into(mark); pick(mark); } };
  body.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const action = {
      ArrowRight: () => step(1), ArrowLeft: () => step(-1), ArrowDown: () => climb(1), ArrowUp: () => climb(-1),
      w: () => zoom(1.5), s: () => zoom(1 / 1.5), "+": () => zoom(1.5), "=": () => zoom(1.5), "-": () => zoom(1 / 1.5),
      a: () => pan(-0.2), d: () => pan(0.2), 0: () => look(whole.from, whole.to), Home: () => look(home.from, home.to),
      Enter: () => picked && frame(picked), Escape: () => pick(null),
    }[event.key];
    if (!action) return;
    event.preventDefault();
    event.stopPropagation();
    action();
  });
  for (const [id, action] of [["timeline-in", () => zoom(2)], ["timeline-out", () => zoom(0.5)], ["timeline-all", () => look(whole.from, whole.to)]]) {
    document.getElementById(id).addEventListener("click", action);
  }

  // Find: what a name holds stays bright; Enter goes to the next one.
  const matches = () => {
    const list = [];
    data.lanes.forEach((_, lane) => { const all = marks(0, lane); for (let i = 0; i < all.n; i++) if (wanted.has(all.name[i])) list.push([all.start[i], lane, i, all.more[i] + 1]); });
    return list.sort((a, b) => a[0] - b[0]);
  };
  let hits = [];
  find.addEventListener("input", () => {
    const text = find.value.trim().toLowerCase();
    wanted = text ? new Set(data.names.flatMap((name, i) => (name.toLowerCase().includes(text) ? [i] : []))) : null;
    hits = wanted ? matches() : [];
    found.textContent = wanted ? hits.length + (hits.length === 1 ? " mark" : " marks") : "";
    draw();
  });
  find.addEventListener("keydown", (event) => {
    if (event.key === "Escape") { find.value = ""; find.dispatchEvent(new Event("input")); event.preventDefault(); }
    if (event.key !== "Enter" || !hits.length) return;
    event.preventDefault();
    const after = picked ? marks(picked.level, picked.lane).start[picked.i] : -1;
    const next = event.shiftKey ? hits.findLast((hit) => hit[0] < after) || hits[hits.length - 1] : hits.find((hit) => hit[0] > after) || hits[0];
    const all = marks(0, next[1]), room = Math.max(all.time[next[2]] * 8, LEAST);
    if (view.to - view.from > 40 * room) look(next[0] - room, next[0] + room);
    go({ lane: next[1], level: 0, i: next[2] });
  });

  // Out of the page: the marks of the finest level as a trace of Perfetto.
  document.getElementById("timeline-save").addEventListener("click", () => {
    const events = [], groups = [...new Set(data.lanes.map((lane) => lane.group))], text = JSON.stringify;
    groups.forEach((group, i) => events.push(text({ ph: "M", name: "process_name", pid: i + 1, args: { name: group } })));
    data.lanes.forEach((lane, number) => {
      const pid = groups.indexOf(lane.group) + 1, all = marks(0, number);
      events.push(text({ ph: "M", name: "thread_name", pid, tid: number, args: { name: lane.label } }));
      for (let i = 0; i < all.n; i++) {
        const name = all.more[i] ? all.more[i] + 1 + " spans, longest " + data.names[all.name[i]] : data.names[all.name[i]];
        const args = all.bytes && all.bytes[i] ? ',"args":{"bytes":' + all.bytes[i] + "}" : "";
        events.push('{"ph":"X","name":' + text(name) + ',"cat":"' + lane.kind + '","pid":' + pid + ',"tid":' + number + ',"ts":' + (all.start[i] / 1000).toFixed(3) + ',"dur":' + (all.time[i] / 1000).toFixed(3) + args + "}");
      }
    });
    const blob = new Blob(['{"displayTimeUnit":"ns","traceEvents":[\n', events.join(",\n"), "\n]}\n"], { type: "application/json" });
    const link = Object.assign(document.createElement("a"), { href: URL.createObjectURL(blob), download: "timeline.perfetto.json" });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
    say("Saved as " + link.download);
  });

  // The address holds the view: #t=from-to, and the span in hand: &pick=lane-start.
  report.writers.push(() => [
    ...(!atHome() ? [["t", Math.floor(view.from) + "-" + Math.ceil(view.to)]] : []),
    ...(picked ? [["pick", picked.lane + "-" + marks(picked.level, picked.lane).start[picked.i]]] : []),
  ]);
  report.readers.push((wantedView, all) => {
    if (!all) return null;
    const range = /^(\d+)-(\d+)$/.exec(wantedView.t || ""), span = /^(\d+)-(\d+)$/.exec(wantedView.pick || "");
    if (range) look(Number(range[1]), Number(range[2]));
    else if (!atHome()) look(home.from, home.to);
    if (span && Number(span[1]) < data.lanes.length) {
      const lane = Number(span[1]), level = levelNow(), list = marks(level, lane);
      for (const part of list.parts) {
        const i = search(list.start, part.from, part.to, Number(span[2])) - 1;
        if (i >= part.from && list.start[i] <= Number(span[2]) && list.start[i] + list.time[i] >= Number(span[2])) pick({ lane, level, i }, false);
      }
    } else if (picked && !span) pick(null);
    return range ? figure : null;
  });

  // The page around: its size, its colours, paper.
  new ResizeObserver(() => { if (scroller.clientWidth && scroller.clientWidth !== width) redo(); }).observe(scroller);
  new MutationObserver(redo).observe(root, { attributes: true, attributeFilter: ["data-theme"] });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redo);
  scroller.addEventListener("scroll", draw, { passive: true });
  addEventListener("beforeprint", () => { printing = true; redo(); });
  addEventListener("afterprint", () => { printing = false; redo(); });
  figure.dataset.live = "true";
  for (const node of figure.querySelectorAll("[data-live-only]")) node.hidden = false;
  redo();
  figure.dataset.drawn = String(Math.round(performance.now()));
  window.kernelLadderTimeline = { look, view: () => ({ ...view }), drawNow, level: levelNow };
})();
