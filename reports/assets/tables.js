// The ladder as a table: order, filters, the rung in hand, keys, copies. Any table[data-sortable] sorts.
(() => {
  const { say } = report;
  const rows = [...document.querySelectorAll("table.ladder tr[data-variant]")];
  const form = document.getElementById("filters");
  const blocks = () => document.querySelectorAll("[data-variant]:not(table.ladder tr)"); // the other parts of the page that speak of one rung
  const known = new Map(); // rung -> its row where it is first
  for (const row of rows) if (!known.has(row.dataset.variant)) known.set(row.dataset.variant, row);

  // Order: a column's button sorts the rows of each contract; empty cells stay last. The ladder's tables keep one order.
  const sorters = [...document.querySelectorAll("table[data-sortable]")].map((table) => ({
    table, heads: [...table.tHead.rows[0].cells],
    bodies: [...table.tBodies].map((body) => ({ body, rows: [...body.rows].filter((row) => !row.classList.contains("group")) })),
  }));
  const sort = ({ heads, bodies }, index, order) => {
    heads.forEach((head, i) => head.setAttribute("aria-sort", i === index ? order : "none"));
    for (const { body, rows: own } of bodies) {
      const key = (row) => row.cells[index].dataset.sort || "";
      const sorted = order === "none" ? own : [...own].sort((a, b) => {
        const [x, y] = [key(a), key(b)];
        if (x === "" || y === "") return (x === "") - (y === "");
        const numeric = !isNaN(Number(x)) && !isNaN(Number(y));
        const way = numeric ? Number(x) - Number(y) : x.localeCompare(y);
        return order === "ascending" ? way : -way;
      });
      body.append(...sorted);
    }
  };
  const ladders = sorters.filter(({ table }) => table.classList.contains("ladder"));
  let chosen = ""; // the rung in hand
  let order = ""; // "time" or "-time", as in the address
  const sortLadders = (wanted) => {
    const key = wanted.replace(/^-/, "");
    const heads = ladders.length ? ladders[0].heads : [];
    const index = heads.findIndex((head) => key && head.dataset.key === key);
    order = index < 0 ? "" : wanted;
    for (const sorter of ladders) sort(sorter, index, index < 0 ? "none" : wanted.startsWith("-") ? "descending" : "ascending");
  };
  for (const sorter of sorters) {
    sorter.heads.forEach((head, index) => {
      const button = head.querySelector("button");
      if (!button) return;
      button.addEventListener("click", () => {
        const now = head.getAttribute("aria-sort");
        const next = now === "ascending" ? "descending" : now === "descending" ? "none" : "ascending";
        if (ladders.includes(sorter)) {
          sortLadders(next === "none" ? "" : (next === "descending" ? "-" : "") + head.dataset.key);
          report.writeLink();
        } else sort(sorter, index, next);
        say(next === "none" ? "In the order of the experiment" : "Sorted by " + head.textContent.trim() + ", " + next);
      });
    });
  }

  // Filters: what a rung must be to be shown, here and in every other part of the page that speaks of one rung.
  const field = (name) => (form ? form.elements.namedItem(name) : null);
  const value = (name) => { const item = field(name); return item ? (item.type === "checkbox" ? (item.checked ? "" : "hide") : item.value.trim()) : ""; };
  const setField = (name, wanted) => {
    const item = field(name);
    if (!item) return;
    if (item.type === "checkbox") item.checked = wanted !== "hide";
    else if (item instanceof RadioNodeList) {
      const inputs = [...item];
      (inputs.find((input) => input.value === wanted) || inputs[0]).checked = true; // the first one shows all
    } else item.value = wanted;
  };
  const FILTERS = ["contract", "size", "status", "text", "baselines"];
  const suits = (row) => {
    const words = value("text").toLowerCase().split(/\s+/).filter(Boolean);
    const text = (row.dataset.variant + " " + (row.querySelector(".idea") || { textContent: "" }).textContent).toLowerCase();
    return (!value("contract") || row.dataset.contract === value("contract"))
      && (!value("status") || row.dataset.status === value("status"))
      && (value("baselines") !== "hide" || !row.classList.contains("baseline"))
      && words.every((word) => text.includes(word));
  };
  const filter = () => {
    for (const row of rows) row.hidden = !suits(row);
    if (chosen && known.has(chosen) && known.get(chosen).hidden) mark(""); // what is filtered away is not in hand
    for (const { table } of ladders) for (const body of table.tBodies) body.hidden = ![...body.rows].some((row) => row.dataset.variant && !row.hidden);
    for (const part of document.querySelectorAll(".size[data-size]")) part.hidden = Boolean(value("size")) && part.dataset.size !== value("size");
    for (const block of blocks()) { const row = known.get(block.dataset.variant); block.hidden = Boolean(row && row.hidden); }
    const left = [...known.values()].filter((row) => !row.hidden).length;
    const count = document.getElementById("filter-count");
    if (count) count.textContent = left === known.size ? known.size + " variants" : left + " of " + known.size + " variants";
    const none = document.getElementById("filter-none");
    if (none) none.hidden = left > 0;
    const clear = document.getElementById("filter-clear");
    if (clear) clear.hidden = FILTERS.every((name) => !value(name));
  };
  const clearAll = () => { for (const name of FILTERS) setField(name, ""); changed("contract"); changed("size"); };
  const changed = (name) => {
    if (name === "size" || name === "contract") report.chooseEverywhere(name, value(name));
    filter();
    report.writeLink();
  };
  if (form && rows.length) {
    form.hidden = false;
    form.addEventListener("submit", (event) => event.preventDefault());
    form.addEventListener("input", (event) => changed(event.target.name));
    form.addEventListener("change", (event) => { if (event.target.name !== "text") changed(event.target.name); });
    for (const button of document.querySelectorAll("#filter-clear, #filter-none button")) button.addEventListener("click", () => { clearAll(); field("text").focus(); });
    field("text").addEventListener("keydown", (event) => {
      if (event.key !== "Escape") return;
      event.preventDefault();
      if (value("text")) { setField("text", ""); changed("text"); } else event.target.blur();
    });
    filter();
  }

  // The rung in hand: marked in the ladder and in its own part of the page; #variant=NAME names it.
  const blockOf = (name) => [...document.querySelectorAll(".variant[data-variant]")].find((block) => block.dataset.variant === name);
  const rowOf = (name) => rows.find((row) => row.dataset.variant === name && row.getClientRects().length) || known.get(name);
  const mark = (name) => {
    chosen = known.has(name) || blockOf(name) ? name : "";
    for (const node of document.querySelectorAll("[data-variant].current")) { node.classList.remove("current"); node.removeAttribute("aria-current"); }
    for (const node of document.querySelectorAll("[data-variant]")) {
      if (chosen && node.dataset.variant === chosen) { node.classList.add("current"); node.setAttribute("aria-current", "true"); }
    }
  };
  const openBlock = (name, scroll) => {
    const block = blockOf(name);
    if (!block) return null;
    report.unfold(block);
    for (const details of block.querySelectorAll(":scope > details")) details.open = true;
    if (scroll) block.scrollIntoView({ block: "start" });
    return block;
  };
  for (const link of document.querySelectorAll("tr[data-variant] a.row-link")) link.hash = "variant=" + encodeURIComponent(link.closest("tr").dataset.variant);
  document.addEventListener("click", (event) => {
    const link = event.target instanceof Element ? event.target.closest("a.row-link, a[data-variant-link]") : null;
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
    const name = link.dataset.variantLink || link.closest("[data-variant]").dataset.variant;
    event.preventDefault();
    mark(name);
    report.writeLink();
    const block = openBlock(name, true);
    if (block) { block.tabIndex = -1; block.focus({ preventScroll: true }); }
    else if (!link.closest("tr[data-variant]")) rowOf(name)?.scrollIntoView({ block: "center" });
  });
  const step = (by) => {
    const active = document.activeElement;
    const inBlock = active && active.closest(".variant[data-variant]");
    const seen = [...new Set(rows.filter((row) => row.getClientRects().length).map((row) => row.dataset.variant))];
    if (!seen.length) return;
    const at = seen.indexOf(chosen);
    const name = seen[at < 0 ? (by > 0 ? 0 : seen.length - 1) : Math.max(0, Math.min(seen.length - 1, at + by))];
    mark(name);
    report.writeLink();
    const block = inBlock && openBlock(name, true);
    if (block) { block.tabIndex = -1; block.focus({ preventScroll: true }); return; }
    const row = rowOf(name);
    row.querySelector(".row-link").focus({ preventScroll: true });
    row.scrollIntoView({ block: "nearest" });
    say(name);
  };

  // Keys, unless the reader is writing somewhere.
  const help = document.getElementById("help"), dialog = document.getElementById("keys");
  if (dialog.showModal) {
    help.hidden = false;
    help.addEventListener("click", () => dialog.showModal());
  }
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || dialog.open) return;
    if (event.target instanceof Element && event.target.closest("input:not([type=radio]):not([type=checkbox]), textarea, select, [contenteditable]")) return;
    const action = {
      j: () => step(1), k: () => step(-1), "?": () => dialog.showModal && dialog.showModal(),
      "/": () => { if (form && !form.hidden) { form.scrollIntoView({ block: "nearest" }); field("text").focus(); field("text").select(); } },
    }[event.key];
    if (action) { event.preventDefault(); action(); }
  });

  // The address: what is filtered, how it is sorted, which rung is in hand.
  report.writers.push(() => [
    ...(chosen ? [["variant", chosen]] : []),
    ...FILTERS.filter((name) => value(name)).map((name) => [name, value(name)]),
    ...(order ? [["sort", order]] : []),
  ]);
  report.readers.push((view, whole) => {
    if (whole) {
      for (const name of FILTERS) setField(name, view[name] || "");
      sortLadders(view.sort || "");
    }
    mark(view.variant || "");
    if (chosen && whole) { // a link to a rung shows it, whatever the filters say
      const row = known.get(chosen);
      if (row && !suits(row)) for (const name of FILTERS) if (name !== "size") setField(name, "");
    }
    filter();
    return chosen ? openBlock(chosen, false) || rowOf(chosen) : null;
  });

  // Copies: as Markdown for a pull request, as tab-separated values (numbers in their units) for a spreadsheet.
  const cell = (text) => text.replace(/\s+/g, " ").trim();
  const visible = (table) => [...table.querySelectorAll("tbody tr:not(.group)")].filter((row) => !row.hidden && !row.closest("tbody").hidden);
  const words = (item) => {
    const clone = item.cloneNode(true);
    clone.querySelectorAll(".idea, .sr, .note").forEach((node) => node.remove());
    clone.querySelectorAll(".under, .reason").forEach((node) => node.prepend(" "));
    return cell(clone.textContent);
  };
  const markdown = (table) => {
    const line = (texts) => "| " + texts.map((text) => text.replace(/\|/g, "\\|")).join(" | ") + " |";
    const heads = [...table.tHead.rows[0].cells].map((head) => cell(head.textContent));
    const name = table.caption ? ["**" + cell(table.caption.textContent) + "**", ""] : [];
    return [...name, line(heads), "|" + heads.map(() => " --- |").join(""), ...visible(table).map((row) => line([...row.cells].map(words)))].join("\n") + "\n";
  };
  const tsv = (table) => {
    const heads = [...table.tHead.rows[0].cells];
    const lines = [heads.map((head) => cell(head.textContent) + (head.dataset.unit ? " [" + head.dataset.unit + "]" : ""))];
    for (const row of visible(table)) {
      lines.push([...row.cells].map((item, i) => {
        if (heads[i] && heads[i].dataset.unit) return item.dataset.sort || "";
        return (item.classList.contains("name") || item.dataset.label === "Variant" ? row.dataset.variant : "") || words(item);
      }));
    }
    return lines.map((texts) => texts.join("\t")).join("\n") + "\n";
  };
  const copy = async (text) => {
    try { await navigator.clipboard.writeText(text); return true; } catch { /* not allowed from a file in some browsers */ }
    const area = document.createElement("textarea");
    area.value = text;
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    return done;
  };
  const offer = (button, text) => {
    const label = button.textContent;
    button.hidden = false;
    button.addEventListener("click", async () => {
      const done = await copy(text());
      button.textContent = done ? "Copied" : "The browser does not allow it";
      say(button.textContent);
      setTimeout(() => { button.textContent = label; }, 1600);
    });
  };
  const shown = () => ladders.map(({ table }) => table).filter((table) => !table.closest("[hidden]"));
  for (const [id, make] of [["copy-table", markdown], ["copy-tsv", tsv]]) {
    const button = document.getElementById(id);
    if (button && ladders.length) offer(button, () => shown().map(make).join("\n"));
  }
  for (const table of document.querySelectorAll("details.twin table")) {
    if (!table.tHead) continue;
    const tools = document.createElement("p");
    tools.className = "tools";
    for (const [text, make] of [["Copy as Markdown", markdown], ["Copy as TSV", tsv]]) {
      const button = Object.assign(document.createElement("button"), { type: "button", className: "quiet-button", textContent: text });
      offer(button, () => make(table));
      tools.append(button);
    }
    (table.closest(".scroll") || table).after(tools);
  }
})();
