"use strict";
(() => {
  const root = document.documentElement;
  const live = document.getElementById("live");
  const figures = new Map();
  let printing = false;

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

  const draw = (figure) => {
    const { spec, state, node } = figure;
    const colour = colours();
    const narrow = node.clientWidth < 560;
    const data = spec.data.filter((_, i) => suits(spec.tags[i], state)).map((trace) => resolve(trace, colour));
    const layout = merge(base(colour, narrow), resolve(spec.layout, colour));
    for (const patch of spec.patches) if (suits(patch.when, state)) merge(layout, resolve(patch.layout, colour));
    layout.annotations = spec.annotations.filter((_, i) => suits(spec.annotationTags[i], state)).map((a) => resolve(a, colour));
    if (narrow) adaptNarrow(spec, layout);
    if (layout.height) node.style.height = layout.height + "px";
    figure.drawn = { data };
    figure.cursor = null;
    return Plotly.react(node, data, layout, {
      displaylogo: false, responsive: true, scrollZoom: false, displayModeBar: "hover",
      modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d", "zoomIn2d", "zoomOut2d"],
      toImageButtonOptions: { filename: spec.id, scale: 2 },
    }).then(() => node.setAttribute("data-drawn", "true"));
  };
  const adaptNarrow = (spec, layout) => {
    if (spec.id === "chart-roofline") {
      layout.margin = { ...layout.margin, l: 54, r: 6 };
      layout.annotations = layout.annotations.filter((a) => !(a.name === "roof" && a.text.endsWith(")")));
      for (const a of layout.annotations) {
        if (a.name === "roof") a.text = a.text.replace(/ at [\d.]+ GHz$/, "");
        if (a.font) a.font = { ...a.font, size: 10 };
      }
    }
    if (spec.id === "chart-stalls") layout.height += 110;
    for (const axis of ["xaxis", "yaxis"]) layout[axis].nticks = 5;
  };
  const redrawAll = () => Promise.all([...figures.values()].map(draw));

  // Keyboard: arrow keys walk the marks of a chart, each is shown and read out.
  const plain = (html) => new DOMParser().parseFromString(String(html).replace(/<br>/g, ". "), "text/html").body.textContent;
  const walk = (figure, step) => {
    const marks = [];
    figure.drawn.data.forEach((trace, curve) => {
      if (trace.mode === "lines") return;
      (trace.hovertext || []).forEach((text, point) => marks.push({ curve, point, text }));
    });
    if (!marks.length) return;
    figure.cursor = figure.cursor === null ? (step > 0 ? 0 : marks.length - 1) : (figure.cursor + step + marks.length) % marks.length;
    const mark = marks[figure.cursor];
    Plotly.Fx.hover(figure.node, [{ curveNumber: mark.curve, pointNumber: mark.point }]);
    live.textContent = plain(mark.text);
  };

  for (const element of document.querySelectorAll("script.figure-spec")) {
    const spec = JSON.parse(element.textContent);
    const node = document.querySelector('.plot[data-figure="' + spec.id + '"]');
    const state = Object.fromEntries(spec.controls.map((control) => [control.key, control.value]));
    const figure = { spec, node, state, drawn: { data: [] }, cursor: null };
    figures.set(spec.id, figure);
    node.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
      if (step) { event.preventDefault(); walk(figure, step); }
      if (event.key === "Escape") Plotly.Fx.unhover(node);
    });
  }
  for (const set of document.querySelectorAll("fieldset[data-figure]")) {
    set.addEventListener("change", (event) => {
      choose(set.dataset.figure, set.dataset.key, event.target.value);
      const figure = figures.get(set.dataset.figure);
      const state = Object.entries(figure.state).map(([k, v]) => encodeURIComponent(k) + "=" + encodeURIComponent(v)).join("&");
      history.replaceState(null, "", "#" + set.dataset.figure + "&" + state);
    });
  }
  const choose = (id, key, value) => {
    const figure = figures.get(id);
    if (!figure || !(key in figure.state)) return;
    const input = [...document.querySelectorAll('input[name="' + id + "-" + key + '"]')].find((item) => item.value === value);
    if (!input) return;
    input.checked = true;
    figure.state[key] = value;
    draw(figure);
  };

  // Links: #id, or #chart&key=value for a chart with its choices made.
  const follow = (scroll) => {
    const [id, ...choices] = location.hash.slice(1).split("&");
    if (!id) return;
    for (const part of choices) {
      const [key, value] = part.split("=").map((text) => { try { return decodeURIComponent(text); } catch { return text; } });
      choose(id, key, value);
    }
    const target = document.getElementById(id);
    if (!target) return;
    for (let node = target; node; node = node.parentElement) if (node.tagName === "DETAILS") node.open = true;
    if (scroll || choices.length || target.closest("details")) target.scrollIntoView({ behavior: "instant" });
  };
  window.addEventListener("hashchange", () => follow(false));

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

  // Tables: a column's button sorts the rows of each contract; empty cells stay last.
  for (const table of document.querySelectorAll("table[data-sortable]")) {
    const heads = [...table.tHead.rows[0].cells];
    const bodies = [...table.tBodies].map((body) => ({ body, rows: [...body.rows].filter((row) => !row.classList.contains("group")) }));
    heads.forEach((head, index) => {
      head.querySelector("button").addEventListener("click", () => {
        const now = head.getAttribute("aria-sort");
        const next = now === "none" ? "ascending" : now === "ascending" ? "descending" : "none";
        heads.forEach((other) => other.setAttribute("aria-sort", "none"));
        head.setAttribute("aria-sort", next);
        for (const { body, rows } of bodies) {
          const key = (row) => row.cells[index].dataset.sort || "";
          const sorted = next === "none" ? rows : [...rows].sort((a, b) => {
            const [x, y] = [key(a), key(b)];
            if (x === "" || y === "") return (x === "") - (y === "");
            const numeric = !isNaN(Number(x)) && !isNaN(Number(y));
            const order = numeric ? Number(x) - Number(y) : x.localeCompare(y);
            return next === "ascending" ? order : -order;
          });
          body.append(...sorted);
        }
        live.textContent = next === "none" ? "In the order of the experiment" : "Sorted by " + head.textContent + ", " + next;
      });
    });
  }

  // The ladder as Markdown, for a pull request.
  const copy = document.getElementById("copy-table");
  if (copy && document.querySelector("table.ladder")) {
    copy.hidden = false;
    copy.addEventListener("click", async () => {
      const text = [...document.querySelectorAll("table.ladder")].map(markdown).join("\n");
      let done = true;
      try { await navigator.clipboard.writeText(text); } catch { done = fallback(text); }
      copy.textContent = done ? "Copied" : "The browser does not allow it";
      setTimeout(() => { copy.textContent = "Copy as Markdown"; }, 1600);
    });
  }
  const cell = (text) => text.replace(/\s+/g, " ").replace(/\|/g, "\\|").trim();
  const markdown = (table) => {
    const heads = [...table.tHead.rows[0].cells].map((head) => cell(head.textContent));
    const lines = ["**" + cell(table.caption.textContent) + "**", "", "| " + heads.join(" | ") + " |", "|" + heads.map(() => " --- |").join("")];
    for (const row of table.querySelectorAll("tbody tr:not(.group)")) {
      const texts = [...row.cells].map((item) => {
        const clone = item.cloneNode(true);
        clone.querySelectorAll(".idea, .sr, .note").forEach((node) => node.remove());
        clone.querySelectorAll(".under, .reason").forEach((node) => node.prepend(" "));
        return cell(clone.textContent);
      });
      lines.push("| " + texts.join(" | ") + " |");
    }
    return lines.join("\n") + "\n";
  };
  const fallback = (text) => {
    const area = document.createElement("textarea");
    area.value = text;
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    return done;
  };

  // Which section is in view.
  const links = [...document.querySelectorAll(".sections a")];
  const sections = links.map((link) => document.getElementById(link.hash.slice(1)).closest("section"));
  const spy = () => {
    let current = 0;
    sections.forEach((section, i) => { if (section.getBoundingClientRect().top < innerHeight * 0.35) current = i; });
    links.forEach((link, i) => (i === current ? link.setAttribute("aria-current", "true") : link.removeAttribute("aria-current")));
  };
  addEventListener("scroll", spy, { passive: true });
  spy();

  // Paper is light.
  let before;
  addEventListener("beforeprint", () => { if (printing) return; printing = true; before = root.dataset.theme; root.dataset.theme = "light"; redrawAll(); });
  addEventListener("afterprint", () => { printing = false; if (before) root.dataset.theme = before; else delete root.dataset.theme; redrawAll(); });

  redrawAll().then(() => follow(true)); // the charts have their heights now, so a link lands where it should
})();
