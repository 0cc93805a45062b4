"use strict";
// Charts, links, theme and paper. tables.js and hints.js follow in the same script and speak to this part by `report`.
const report = (() => {
  const root = document.documentElement;
  const live = document.getElementById("live");
  const figures = new Map();
  const PAPER_WIDTH = 1000; // what A4 across holds between its margins
  let printing = false;
  const say = (text) => { live.textContent = text; };
  root.dataset.live = "true";

  // Colours: "@name" in a specification is the style sheet's --name, so that a chart follows the theme.
  const colours = () => {
    const style = getComputedStyle(root);
    const known = new Map();
    return (name) => {
      if (!known.has(name)) known.set(name, style.getPropertyValue("--" + name).trim() || "#888");
      return known.get(name);
    };
  };
  const resolve = (value, colour) => {
    if (typeof value === "string") return value.startsWith("@") ? colour(value.slice(1)) : value;
    if (Array.isArray(value)) return value.map((item) => resolve(item, colour));
    if (value && typeof value === "object") {
      const out = {};
      for (const [key, item] of Object.entries(value)) out[key] = resolve(item, colour);
      return out;
    }
    return value;
  };
  const merge = (into, from) => {
    for (const [key, value] of Object.entries(from)) {
      if (value && typeof value === "object" && !Array.isArray(value) && into[key] && typeof into[key] === "object") merge(into[key], value);
      else into[key] = value;
    }
    return into;
  };
  const suits = (tags, state) =>
    Object.entries(tags).every(([key, value]) => !(key in state) || (Array.isArray(value) ? value.includes(state[key]) : value === state[key]));

  const axis = (colour) => ({
    gridcolor: colour("hair"), linecolor: colour("rule"), zerolinecolor: colour("rule"), tickcolor: colour("rule"),
    title: { standoff: 10, font: { size: 12.5, color: colour("muted") } },
  });
  const base = (colour, narrow) => ({
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: getComputedStyle(document.body).fontFamily, size: narrow ? 11 : 12.5, color: colour("ink2") },
    hoverlabel: { bgcolor: colour("raised"), bordercolor: colour("rule"), align: "left", font: { color: colour("ink"), size: 12.5 } },
    xaxis: axis(colour), yaxis: axis(colour),
    dragmode: false, autosize: true,
  });

  /** How much room a chart has at a width in pixels: what is tagged with another room is left out. */
  const roomOf = (width) => (width < 560 ? "narrow" : width < 900 ? "medium" : width < 1100 ? "paper" : "wide");
  /** What Plotly is given for a chart as it stands, at a width in pixels. */
  const compose = ({ spec, state: chosen }, width) => {
    const colour = colours();
    const room = roomOf(width), narrow = room === "narrow";
    const state = { ...chosen, room };
    const data = spec.data.filter((_, i) => suits(spec.tags[i], state)).map((trace) => resolve(trace, colour));
    const layout = merge(base(colour, narrow), resolve(spec.layout, colour));
    for (const patch of spec.patches) if (suits(patch.when, state)) merge(layout, resolve(patch.layout, colour));
    layout.annotations = spec.annotations.filter((_, i) => suits(spec.annotationTags[i], state)).map((a) => resolve(a, colour));
    if (narrow) merge(layout, resolve(spec.narrow || {}, colour));
    if (narrow) adaptNarrow(spec, state, layout);
    return { data, layout, colour, room };
  };
  // A legend under a narrow chart has an entry a line.
  const LEGEND_TOP = 62, LEGEND_LINE = 19;
  const stallsExtra = (spec, state) => {
    const names = new Set(spec.data.filter((_, i) => suits(spec.tags[i], state)).map((trace) => trace.name));
    return LEGEND_TOP + LEGEND_LINE * names.size - spec.layout.margin.b;
  };
  // Below a chart: what its numbers and lines mean, where there is no room for names in it.
  const listKeys = ({ spec, state, node }, width) => {
    const shown = { ...state, room: roomOf(width) };
    const found = (spec.keys || []).find((keys) => suits(keys.when, shown));
    let list = node.nextElementSibling;
    if (!list || !list.matches(".keys")) {
      if (!found) return;
      list = document.createElement("div");
      list.className = "keys";
      node.after(list);
    }
    list.hidden = !found;
    list.replaceChildren();
    if (!found) return;
    const names = list.appendChild(document.createElement("ol")), lines = list.appendChild(document.createElement("ul"));
    for (const [number, name] of found.numbers) Object.assign(names.appendChild(document.createElement("li")), { value: number, textContent: name });
    for (const [mark, colour, text] of found.lines) {
      const item = lines.appendChild(document.createElement("li"));
      const sign = Object.assign(item.appendChild(document.createElement("span")), { className: "mark", textContent: mark, ariaHidden: "true" });
      sign.style.color = "var(--" + colour.slice(1) + ")";
      item.append(" " + text);
    }
  };
  const adaptNarrow = (spec, state, layout) => {
    if (spec.id === "chart-roofline") layout.margin = { ...layout.margin, l: 64, r: 6 };
    if (spec.id === "chart-stalls") {
      const extra = stallsExtra(spec, state);
      layout.margin = { ...layout.margin, b: layout.margin.b + extra };
      layout.legend.maxheight = 1000;
      layout.height += extra;
    }
    if (spec.id === "chart-ladder") layout.xaxis.range[1] *= 1.35; // the numbers beside the bars stay as wide
    if (spec.id === "chart-why") layout.xaxis.range[1] += 0.25 * (layout.xaxis.range[1] - layout.xaxis.range[0]);
    for (const axis of ["xaxis", "yaxis"]) layout[axis].nticks = 5;
  };

  // A chart is drawn when it comes near the window, the rest when the browser has nothing better to do; its height is
  // there from the beginning, so that nothing moves under the reader and a link lands where it should.
  const widthOf = (figure) => (printing ? PAPER_WIDTH : figure.node.clientWidth || 900);
  const reserve = (figure) => {
    const { spec, state, node } = figure;
    let height = spec.layout.height || 0;
    for (const patch of spec.patches) if (suits(patch.when, state)) height = patch.layout.height || height;
    if (widthOf(figure) < 560) height = (spec.narrow && spec.narrow.height) || height;
    if (spec.id === "chart-stalls" && widthOf(figure) < 560) height += stallsExtra(spec, state);
    if (height) node.style.height = height + "px";
    listKeys(figure, widthOf(figure));
  };
  // Plotly takes a third of a second to start, so that it starts with the first chart. Its text lies in the page as data;
  // the policy admits it by its hash all the same.
  let started = null;
  const startPlotly = () => {
    if (started) return started;
    const source = document.getElementById("plotly"), element = document.createElement("script");
    started = new Promise((done) => {
      if (source.dataset.src) { element.onload = done; element.src = source.dataset.src; }
      else { element.textContent = source.textContent; done(); }
    });
    document.head.append(element);
    source.remove();
    return started;
  };
  const draw = (figure) => startPlotly().then(() => drawNow(figure));
  const drawNow = (figure) => {
    const { spec, node } = figure;
    const { data, layout, room } = compose(figure, widthOf(figure));
    if (layout.height) node.style.height = layout.height + "px";
    if (printing) Object.assign(layout, { width: PAPER_WIDTH, autosize: false });
    Object.assign(figure, { drawn: { data }, cursor: null, room, done: true });
    listKeys(figure, widthOf(figure));
    return Plotly.react(node, data, layout, {
      displaylogo: false, responsive: true, scrollZoom: false, displayModeBar: "hover",
      modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d", "zoomIn2d", "zoomOut2d", "toImage"],
    }).then(() => node.setAttribute("data-drawn", "true"));
  };
  const update = (figure) => (figure.done ? draw(figure) : Promise.resolve(reserve(figure)));
  const redrawAll = () => Promise.all([...figures.values()].map(update));
  const shown = (figure) => figure.node.getClientRects().length > 0 && !figure.node.closest("details:not([open])");
  const near = (figure) => {
    const box = figure.node.getBoundingClientRect();
    return shown(figure) && box.top < innerHeight && box.bottom > 0;
  };
  const idly = window.requestIdleCallback || ((work) => setTimeout(work, 50));
  const drawRest = () => {
    const next = [...figures.values()].find((figure) => !figure.done && shown(figure));
    if (next) draw(next).then(() => idly(drawRest));
    else if (!root.dataset.drawn) root.dataset.drawn = String(Math.round(performance.now()));
  };
  const watcher = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      const figure = figures.get(entry.target.dataset.figure);
      if (entry.isIntersecting && figure && !figure.done && root.dataset.ready) draw(figure);
    }
  }, { rootMargin: "300px 0px" });

  // Keyboard: arrow keys walk the marks of a chart, each is shown and read out.
  const plain = (html) => new DOMParser().parseFromString(String(html).replace(/<br>/g, ". "), "text/html").body.textContent;
  const walk = async (figure, step) => {
    if (!figure.done) await draw(figure);
    const marks = [];
    figure.drawn.data.forEach((trace, curve) => {
      if (trace.mode === "lines") return;
      (trace.hovertext || []).forEach((text, point) => marks.push({ curve, point, text }));
    });
    if (!marks.length) return;
    figure.cursor = figure.cursor === null ? (step > 0 ? 0 : marks.length - 1) : (figure.cursor + step + marks.length) % marks.length;
    const mark = marks[figure.cursor];
    Plotly.Fx.hover(figure.node, [{ curveNumber: mark.curve, pointNumber: mark.point }]);
    say(plain(mark.text));
  };

  for (const element of document.querySelectorAll("script.figure-spec")) {
    const spec = JSON.parse(element.textContent);
    const node = document.querySelector('.plot[data-figure="' + spec.id + '"]');
    if (!node) continue;
    const first = Object.fromEntries(spec.controls.map((control) => [control.key, control.value]));
    const figure = { spec, node, first, base: { ...first }, state: { ...first }, drawn: { data: [] }, cursor: null, done: false };
    figures.set(spec.id, figure);
    reserve(figure);
    watcher.observe(node);
    node.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
      if (step) { event.preventDefault(); walk(figure, step); }
      if (event.key === "Escape" && figure.done) Plotly.Fx.unhover(node);
    });
  }
  for (const set of document.querySelectorAll("fieldset[data-figure]")) {
    set.addEventListener("change", (event) => {
      choose(set.dataset.figure, set.dataset.key, event.target.value);
      writeLink(set.dataset.figure);
    });
  }
  const choose = (id, key, value) => {
    const figure = figures.get(id);
    if (!figure || !(key in figure.state)) return false;
    const input = [...document.querySelectorAll('input[name="' + id + "-" + key + '"]')].find((item) => item.value === value);
    if (!input) return false;
    if (input.checked && figure.state[key] === value) return true;
    input.checked = true;
    figure.state[key] = value;
    update(figure);
    return true;
  };
  /** Make one choice in every chart that offers it; an empty value takes each back to where it began. */
  const chooseEverywhere = (key, value) => {
    for (const [id, figure] of figures) {
      if (!(key in figure.state)) continue;
      const wanted = value || figure.first[key];
      if (choose(id, key, wanted)) figure.base[key] = wanted;
    }
  };

  // Pictures: the chart as it stands, with a title, where it comes from, and a legend.
  const escape = (text) => text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
  const picture = async (figure) => {
    const { spec, state } = figure;
    const width = 1200;
    const { data, layout, colour } = compose(figure, width);
    const chosen = spec.controls.map((control) => (control.options.find(([value]) => value === state[control.key]) || ["", ""])[1]);
    const about = [document.title, document.body.dataset.gpu, ...chosen].filter(Boolean).join(" · ");
    const names = new Set();
    for (const trace of data) {
      if (!trace.name || names.has(trace.name)) trace.showlegend = false;
      else { names.add(trace.name); trace.showlegend = true; }
    }
    const legendLines = Math.ceil(names.size / 6);
    const margin = { l: 24, r: 24, t: 24, b: 56, ...layout.margin };
    const below = layout.showlegend === false || !layout.legend ? 30 + 22 * legendLines : 0;
    Object.assign(layout, {
      width, height: (layout.height || 420) + 72 + below, autosize: false, showlegend: names.size > 1,
      paper_bgcolor: colour("paper"), plot_bgcolor: colour("paper"),
      margin: { ...margin, l: Math.max(24, margin.l), r: Math.max(24, margin.r), t: margin.t + 72, b: margin.b + below },
      title: {
        text: "<b>" + escape(spec.label) + "</b>", subtitle: { text: escape(about), font: { size: 13, color: colour("muted") } },
        x: 0, xref: "container", xanchor: "left", pad: { l: 24 }, y: 1, yref: "container", yanchor: "top", font: { size: 19, color: colour("ink") },
        automargin: false,
      },
    });
    layout.title.pad.t = 20;
    if (below) layout.legend = { orientation: "h", x: 0, y: 0, yref: "container", yanchor: "bottom", font: { size: 12 } };
    await startPlotly();
    return Plotly.toImage({ data, layout }, { format: "png", width, height: layout.height, scale: 2 });
  };
  for (const button of document.querySelectorAll("button.export")) {
    const figure = figures.get(button.dataset.figure);
    if (!figure) continue;
    button.hidden = false;
    button.setAttribute("aria-label", "Save as PNG: " + figure.spec.label);
    button.addEventListener("click", async () => {
      const link = document.createElement("a");
      link.href = await picture(figure);
      link.download = figure.spec.id + ".png";
      link.click();
      say("Saved as " + link.download);
    });
  }

  // Links. The address is a place and choices: #stalls, #variant=NAME, #chart-roofline&level=l2, #contract=bf16&sort=-time.
  // A choice belongs to the chart that the address begins with, or to "owner.", or to the page's filters.
  const decode = (text) => { try { return decodeURIComponent(text); } catch { return text; } };
  const encode = (text) => encodeURIComponent(text).replace(/%3D/g, "=").replace(/%2C/g, ",");
  const parse = (hash) => {
    const parts = hash.slice(1).split("&").filter(Boolean);
    const place = parts.length && !parts[0].includes("=") ? decode(parts.shift()) : "";
    const chart = figures.has(place) ? place : "";
    const view = {}, choices = [];
    for (const part of parts) {
      const at = part.indexOf("=");
      if (at < 0) continue;
      const key = decode(part.slice(0, at)), value = decode(part.slice(at + 1));
      const owner = [...figures.keys(), "ladder"].find((id) => key.startsWith(id + ".")) || chart || "ladder";
      const name = key.startsWith(owner + ".") ? key.slice(owner.length + 1) : key;
      if (owner === "ladder") view[name] = value;
      else choices.push([owner, name, value]);
    }
    return { place, view, choices };
  };
  const writers = [];
  const writeLink = (place = "") => {
    const parts = [], at = figures.get(place);
    if (place) parts.push(encode(place));
    if (at) parts.push(...Object.entries(at.state).map(([key, value]) => encode(key) + "=" + encode(value)));
    for (const writer of writers) for (const [key, value] of writer()) parts.push((place ? "ladder." : "") + key + "=" + encode(value));
    for (const [id, figure] of figures) {
      if (figure === at) continue;
      for (const [key, value] of Object.entries(figure.state)) if (value !== figure.base[key]) parts.push(id + "." + encode(key) + "=" + encode(value));
    }
    try { history.replaceState(null, "", parts.length ? "#" + parts.join("&") : location.pathname + location.search); } catch { /* a page without an address of its own */ }
  };
  const unfold = (target) => { for (let node = target; node; node = node.parentElement) if (node.tagName === "DETAILS") node.open = true; };
  const readers = [];
  const follow = (scroll) => {
    const { place, view, choices } = parse(location.hash);
    const target = place ? document.getElementById(place) : null;
    const whole = !place || Object.keys(view).length + choices.length > 0; // else a mere place: the choices stay
    if (whole) {
      for (const [id, figure] of figures) {
        for (const key of Object.keys(figure.state)) {
          if (key !== "size" && key !== "contract" && !choices.some(([owner, name]) => owner === id && name === key)) choose(id, key, figure.first[key]);
        }
      }
      for (const key of ["size", "contract"]) chooseEverywhere(key, view[key] || "");
      for (const [id, key, value] of choices) choose(id, key, value);
    }
    const row = !whole && target && target.matches("tr[data-variant]");
    if (row) view.variant = target.dataset.variant;
    const found = whole || row ? readers.map((reader) => reader(view, whole)).find(Boolean) : null;
    if (!whole && target) writeLink(place);
    const goal = target || found;
    if (!goal) return;
    unfold(goal);
    if (scroll || !target || choices.length || target.closest("details")) goal.scrollIntoView({ behavior: "instant", block: "start" });
  };
  addEventListener("hashchange", () => { if (location.hash) follow(false); });

  // Theme: the system's until the reader chooses.
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const button = document.getElementById("theme");
  const store = { get() { try { return localStorage.getItem("kernel-ladder-theme"); } catch { return null; } },
                  set(value) { try { localStorage.setItem("kernel-ladder-theme", value); } catch { /* private windows */ } } };
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : dark.matches);
  const label = () => { button.textContent = isDark() ? "Light" : "Dark"; button.setAttribute("aria-label", "Switch to " + (isDark() ? "light" : "dark") + " colours"); };
  const saved = store.get();
  if (saved === "light" || saved === "dark") root.dataset.theme = saved;
  button.hidden = false;
  label();
  button.addEventListener("click", () => { root.dataset.theme = isDark() ? "light" : "dark"; store.set(root.dataset.theme); label(); redrawAll(); });
  dark.addEventListener("change", () => { label(); redrawAll(); });

  // Which section is in view.
  const links = [...document.querySelectorAll(".sections a")];
  const sections = links.map((link) => document.getElementById(link.hash.slice(1)).closest("section"));
  const spy = () => {
    let current = 0;
    sections.forEach((section, i) => { if (section.getBoundingClientRect().top < innerHeight * 0.35) current = i; });
    links.forEach((link, i) => (i === current ? link.setAttribute("aria-current", "true") : link.removeAttribute("aria-current")));
  };
  addEventListener("scroll", spy, { passive: true });
  addEventListener("resize", () => { for (const figure of figures.values()) if (figure.done && !printing && figure.room !== roomOf(widthOf(figure))) draw(figure); });

  // Paper is light, as wide as paper, complete, and has every fold open.
  let before, folded = [];
  addEventListener("beforeprint", () => {
    if (printing) return;
    printing = true;
    before = root.dataset.theme;
    root.dataset.theme = "light";
    folded = [...document.querySelectorAll("details:not([open])")];
    for (const details of folded) details.open = true;
    if (figures.size) startPlotly();
    if (window.Plotly) for (const figure of figures.values()) drawNow(figure); // at once: the page is laid out when this returns
  });
  addEventListener("afterprint", () => {
    printing = false;
    if (before) root.dataset.theme = before;
    else delete root.dataset.theme;
    for (const details of folded) details.open = false;
    folded = [];
    redrawAll();
  });

  // Ready: every handler is in place, and the charts that the reader sees are drawn. The rest follows in idle time.
  addEventListener("DOMContentLoaded", () => {
    follow(true);
    spy();
    Promise.all([...figures.values()].filter(near).map(draw)).then(() => {
      performance.mark("ready");
      root.dataset.ready = String(Math.round(performance.now()));
      idly(drawRest);
    });
  });

  return { say, writeLink, writers, readers, unfold, chooseEverywhere, picture: (id) => picture(figures.get(id)) };
})();
