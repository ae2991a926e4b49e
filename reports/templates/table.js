"use strict";
window.gfyData.then(({ rows: data }) => {
  const names = Object.keys(data.columns).filter((n) => n !== "id");
  const box = document.getElementById("table");
  const [head, body] = [box.querySelector("thead"), box.querySelector("tbody")];
  const [form, count, pages] = ["filters", "count", "pages"].map((id) => document.getElementById(id));
  const state = { sort: null, down: false, page: 0, size: 50, set: null, here: null, all: false, view: [] };
  const make = window.gfyMake;
  const value = (name, i) => {
    const c = data.columns[name];
    if (!c.d) return c.v[i];
    return c.c[i] < 0 ? null : c.d[c.c[i]];
  };
  const number = (x) => (x === "inf" ? Infinity : x === "-inf" ? -Infinity : x);
  window.gfyRows = { data, value, number }; // the charts of an answer draw from the same rows
  const isNumber = (name) => !data.columns[name].d && data.columns[name].v.some((x) => typeof x === "number");
  const numeric = Object.fromEntries(names.map((n) => [n, isNumber(n)]));
  const shown = (name, x) => {
    if (x === null || x === undefined) return "";
    if (typeof x !== "number") return String(x);
    if (/_s$/.test(name)) {
      const [s, u] = x >= 1 ? [1, "s"] : x >= 1e-3 ? [1e-3, "ms"] : [1e-6, "µs"];
      return x === 0 ? "0" : (x / s).toPrecision(3) + " " + u;
    }
    if (Number.isInteger(x)) return Math.abs(x) >= 1e5 ? x.toLocaleString("en") : String(x);
    return Math.abs(x) < 9e-3 || Math.abs(x) >= 1e5 ? x.toExponential(1) : String(Number(x.toPrecision(4)));
  };

  // Filters: one choice for each column with a few values, and one line of words and conditions.
  const search = make("input", null, { type: "search", id: "search", placeholder: "words, gap_rel<1e-8, solver:newton" });
  const picks = {};
  const labelled = (text, node) => { const l = make("label", text); l.append(node); return l; };
  form.append(labelled("Search", search));
  for (const name of ["status", "family", "solver", "gradient", "backend", "device", "dtype", "machine", "kind"]) {
    const c = data.columns[name];
    if (!c || !c.d || c.d.length < 2) continue;
    const select = make("select", null, { id: "filter-" + name });
    select.append(make("option", "all", { value: "" }));
    [...c.d].sort().forEach((v) => select.append(make("option", v, { value: v })));
    picks[name] = select;
    form.append(labelled(name, select));
    select.addEventListener("change", () => refresh());
  }
  const all = make("input", null, { type: "checkbox", id: "all-columns" });
  const allLabel = make("label", null, { class: "check" });
  allLabel.append(all, "all columns");
  const clear = make("button", "Clear", { type: "button", id: "clear" });
  const save = make("button", "Save these as CSV", { type: "button", id: "save" });
  form.append(allLabel, clear, save);

  const condition = (token) => {
    const m = /^([a-z_]+)(<=|>=|<|>|=|:)(.+)$/i.exec(token);
    if (m && data.columns[m[1]]) {
      const [, name, op, raw] = m;
      if (op === ":") return (i) => String(value(name, i) ?? "").toLowerCase().includes(raw.toLowerCase());
      if (op === "=") return (i) => String(value(name, i) ?? "").toLowerCase() === raw.toLowerCase() || number(value(name, i)) === Number(raw);
      const bound = Number(raw);
      const test = { "<": (x) => x < bound, ">": (x) => x > bound, "<=": (x) => x <= bound, ">=": (x) => x >= bound }[op];
      return (i) => { const x = number(value(name, i)); return typeof x === "number" && test(x); };
    }
    // A word is looked for once in the distinct texts of a column, and in numbers only where it can be part of one.
    const word = token.toLowerCase();
    const within = (x) => x !== null && x !== undefined && String(x).toLowerCase().includes(word);
    const places = ["id", ...names].flatMap((name) => {
      const { d, c, v } = data.columns[name];
      if (!d) return numeric[name] && !/^[-+.0-9einf]+$/.test(word) ? [] : [(i) => within(v[i])];
      const hit = d.map(within);
      return hit.includes(true) ? [(i) => hit[c[i]] === true] : [];
    });
    return (i) => places.some((p) => p(i));
  };
  const refresh = (keepPage) => {
    const tests = search.value.trim().split(/\s+/).filter(Boolean).map(condition);
    for (const [name, select] of Object.entries(picks)) if (select.value) tests.push((i) => value(name, i) === select.value);
    let view = state.set ?? Array.from({ length: data.n }, (_, i) => i);
    view = view.filter((i) => tests.every((t) => t(i)));
    if (state.sort) {
      const key = new Map(view.map((i) => [i, number(value(state.sort, i))]));
      const empty = (x) => x === null || x === undefined;
      view.sort((a, b) => {
        const [x, y] = [key.get(a), key.get(b)];
        if (empty(x) || empty(y)) return empty(x) - empty(y) || a - b; // what was not measured stays last
        const order = typeof x === "string" || typeof y === "string" ? String(x).localeCompare(String(y), "en", { numeric: true }) : x - y;
        return (state.down ? -order : order) || a - b;
      });
    }
    state.view = view;
    if (!keepPage) state.page = 0;
    draw();
  };
  const columns = () => (state.all ? names : data.main);
  const drawHead = () => {
    const line = make("tr");
    line.append(make("th", "row", { scope: "col" }));
    for (const name of columns()) {
      const sorted = state.sort === name;
      const th = make("th", null, { scope: "col", "aria-sort": sorted ? (state.down ? "descending" : "ascending") : "none" });
      if (numeric[name]) th.className = "n";
      const button = make("button", name + (sorted ? (state.down ? " ▼" : " ▲") : ""), { type: "button", "data-sort": name, title: data.about[name] });
      button.addEventListener("click", () => {
        state.down = sorted ? !state.down : false;
        state.sort = name;
        refresh();
        head.querySelector(`[data-sort="${name}"]`).focus();
      });
      th.append(button);
      line.append(th);
    }
    head.replaceChildren(line);
  };
  const draw = () => {
    drawHead();
    const last = Math.max(0, Math.ceil(state.view.length / state.size) - 1);
    state.page = Math.min(Math.max(0, state.page), last);
    const from = state.page * state.size;
    body.replaceChildren(...state.view.slice(from, from + state.size).map((i) => {
      const id = value("id", i);
      const line = make("tr", null, { id: "row-" + id });
      if (state.here === id) line.className = "here";
      const open = make("button", id, { type: "button", "aria-label": "row " + id + " in full" });
      open.addEventListener("click", () => detail(i));
      const first = make("td");
      first.append(open);
      line.append(first);
      for (const name of columns()) {
        const x = value(name, i);
        const cell = make("td", shown(name, x));
        if (numeric[name]) cell.className = "n";
        if (name === "status" && x !== "ok") cell.className = "bad";
        if (typeof x === "string" && x.length > 60) { cell.textContent = x.slice(0, 57) + "…"; cell.title = x; }
        line.append(cell);
      }
      return line;
    }));
    const behind = state.set ? " behind one number" : "";
    count.textContent = `${state.view.length.toLocaleString("en")} of ${data.n.toLocaleString("en")} rows${behind}`;
    const turn = (label, to, off) => {
      const b = make("button", label, { type: "button" });
      b.disabled = off;
      b.addEventListener("click", () => { state.page = to; draw(); });
      return b;
    };
    pages.replaceChildren(turn("First", 0, state.page === 0), turn("Previous", state.page - 1, state.page === 0),
      make("span", `page ${state.page + 1} of ${last + 1}`),
      turn("Next", state.page + 1, state.page === last), turn("Last", last, state.page === last));
  };
  const dialog = document.getElementById("detail");
  const detail = (i) => {
    const list = make("dl");
    for (const name of ["id", ...names]) {
      const x = value(name, i);
      if (x === null || x === undefined) continue;
      list.append(make("dt", name), make("dd", String(x)));
    }
    const close = make("button", "Close", { type: "button" });
    close.addEventListener("click", () => dialog.close());
    dialog.replaceChildren(close, list);
    dialog.showModal();
  };
  const reset = () => {
    search.value = "";
    Object.values(picks).forEach((s) => { s.value = ""; });
    state.set = null;
  };
  const follow = () => {
    const m = /^#(row|rows)-(.+)$/.exec(decodeURIComponent(location.hash));
    if (m) {
      reset();
      state.here = m[1] === "row" ? m[2] : null;
      if (m[1] === "rows") state.set = data.sets[Number(m[2])] ?? [];
      refresh();
      if (state.here) {
        const at = state.view.findIndex((i) => value("id", i) === state.here);
        if (at < 0) { count.textContent = `Row ${state.here} is not in this page; it is in rows.csv.`; return; }
        state.page = Math.floor(at / state.size);
        draw();
      }
      const target = document.getElementById(state.here ? "row-" + state.here : "count");
      target.scrollIntoView({ block: "center" });
      target.querySelector("button")?.focus({ preventScroll: true });
      return;
    }
    // A link into a folded part of the page opens it first.
    const aim = location.hash.length > 1 && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    const folded = aim && (aim.closest("details:not([open])") ?? aim.querySelector(":scope > details:not([open])"));
    if (folded) { folded.open = true; aim.scrollIntoView({ block: "center" }); }
  };
  const quote = (x) => (x === null || x === undefined ? "" : /[",\n]/.test(String(x)) ? '"' + String(x).replaceAll('"', '""') + '"' : String(x));
  save.addEventListener("click", () => {
    const lines = [["id", ...names].join(","), ...state.view.map((i) => ["id", ...names].map((n) => quote(value(n, i))).join(","))];
    const a = make("a", null, { download: "rows-filtered.csv", href: URL.createObjectURL(new Blob([lines.join("\n")], { type: "text/csv" })) });
    a.click();
    setTimeout(() => URL.revokeObjectURL(a.href), 1000);
  });
  let timer;
  search.addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(refresh, 80); });
  all.addEventListener("change", () => { state.all = all.checked; draw(); });
  clear.addEventListener("click", () => { reset(); state.here = null; state.sort = null; refresh(); });
  form.addEventListener("submit", (e) => e.preventDefault());
  window.addEventListener("hashchange", follow);
  // A second click on the same link changes no address, so the link itself is listened to.
  document.addEventListener("click", (e) => {
    const a = e.target.closest && e.target.closest('a[href^="#row"]');
    if (a && a.getAttribute("href") === location.hash) { e.preventDefault(); follow(); }
  });
  box.hidden = false;
  refresh();
  follow();
});
