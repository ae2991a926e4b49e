"use strict";
window.gfyData.then(({ evidence: E }) => {
  // Answers another question from the evidence in the page, by the rules that made the first table.
  const form = document.getElementById("question");
  const table = document.getElementById("answers");
  const [said, share] = ["said", "share"].map((id) => document.getElementById(id));
  const R = E.rules;
  const make = window.gfyMake;
  const seconds = (x) => {
    const [s, u] = x >= 1 ? [1, "s"] : x >= 1e-3 ? [1e-3, "ms"] : x >= 1e-6 ? [1e-6, "µs"] : [1e-9, "ns"];
    const y = x / s;
    const digits = Math.max(0, 2 - Math.floor(Math.log10(y)));
    return y.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits }) + " " + u;
  };
  const four = (x) => Number(x.toPrecision(4)); // times that agree in four digits differ by rounding alone
  const factor = (r) => (r < 9.95 ? r.toFixed(1) : Math.round(r).toLocaleString("en"));
  const power = (x) => x.toExponential(0).replace(/e([+-])(\d)$/, "e$10$2");
  const size = (k, b) => [k === null ? "" : "k\u00a0=\u00a0" + k, b === null ? "" : "batch\u00a0" + b].filter(Boolean).join(", ");
  const log = (x) => (x !== null && x >= 1 ? Math.log(x) : 0);
  const decades = (k, b, p) => (Math.abs(log(k) - log(p[0])) + 0.5 * Math.abs(log(b) - log(p[1]))) / Math.LN10;
  const shade = (r) => Math.max(0, 1 - Math.log10(Math.max(r, 1)) / 2);
  const [CERTIFIED, REFUSED, ABSENT] = [0, 1, 2]; // the first three of E.states

  // One series at a size: what was measured there, else what its growth says.
  const at = ([, solver, gradient, code, growth, points], k, batch) => {
    const cell = { solver: E.solvers[solver][0], gradient, code: E.codes[code], state: ABSENT, reason: "", link: "", distance: 0 };
    const here = points.find((p) => p[0] === k && p[1] === batch);
    if (here) {
      Object.assign(cell, { state: here[2], reason: E.reasons[here[5]], link: here[6], busy: here[7] === 1 });
      if (here[2] === CERTIFIED) Object.assign(cell, { time: here[3], low: here[3], high: here[4] });
      return cell;
    }
    if (!growth) {
      const near = points.reduce((a, p) => (decades(k, batch, p) < decades(k, batch, a) ? p : a));
      const reason = `${E.reasons[near[5]]} (measured at ${size(near[0], near[1])})`;
      return Object.assign(cell, { state: near[2], reason, link: near[6] });
    }
    const good = points.filter((p) => p[2] === CERTIFIED);
    const near = good.reduce((a, p) => (decades(k, batch, p) < decades(k, batch, a) ? p : a));
    const [m, c] = growth;
    const [x, y] = [log(k), log(batch)];
    const mean = m[0] + m[1] * x + m[2] * y;
    const variance = c[0] + 2 * c[1] * x + 2 * c[2] * y + c[3] * x * x + 2 * c[4] * x * y + c[5] * y * y;
    const width = R.interval * Math.sqrt(variance + R.misfit * R.misfit);
    const distance = decades(k, batch, near);
    Object.assign(cell, { time: Math.exp(mean), low: Math.exp(mean - width), high: Math.exp(mean + width), distance, link: near[6], busy: good.some((p) => p[7] === 1) });
    if (distance > R.near) cell.reason = `the nearest certified size is ${distance.toFixed(2)} decades away, more than ${R.near}`;
    else cell.state = CERTIFIED;
    return cell;
  };
  const before = (a, b) => {
    if (a.state === CERTIFIED && b.state === CERTIFIED) return a.time < b.time;
    const rank = (c) => [0, 3, 2][c.state] ?? 1; // certified, failed, not measured there; what does not apply comes last
    return rank(a) < rank(b);
  };
  const overlap = (a, b) => Math.max(a.high, R.practical * a.time) >= b.low;
  const tie = (a, b) => overlap(a, b) && b.time < R.tie * a.time;

  const ask = () => {
    const q = {};
    for (const node of form.querySelectorAll("select,input")) q[node.name] = node.value.trim();
    for (const name of ["k", "batch"]) q[name] = /^[0-9]+$/.test(q[name] ?? "") && Number(q[name]) > 0 ? Number(q[name]) : null;
    return q;
  };
  const placeOf = (q) => E.places.findIndex((p) => (q.machine === undefined || p[0] === q.machine) && p[1] === q.backend && p[2] === q.device && p[3] === q.dtype);
  const answer = (q) => {
    const series = E.tables[`${placeOf(q)}|${q.need}|${q.accuracy}`] ?? [];
    const lines = [];
    E.kinds.forEach((kind, number) => {
      if (q.problem && kind.energy !== q.problem) return;
      const mine = series.filter((s) => s[0] === number);
      const order = (a, b) => (a[0] ?? 0) - (b[0] ?? 0) || (a[1] ?? 0) - (b[1] ?? 0);
      const sizes = q.k === null && q.batch === null ? [...kind.sizes].sort(order) : [[q.k ?? kind.sizes[0][0], q.batch ?? kind.sizes[0][1]]];
      for (const [k, batch] of sizes) {
        const cells = new Map();
        for (const s of mine) {
          const cell = at(s, k, batch);
          const held = cells.get(cell.solver);
          if (!held || before(cell, held)) cells.set(cell.solver, cell);
        }
        const certified = [...cells.values()].filter((c) => c.state === CERTIFIED).sort((a, b) => four(a.time) - four(b.time) || (a.solver < b.solver ? -1 : 1));
        lines.push({ kind, number, k, batch, cells, order: certified, best: certified[0] });
      }
    });
    // Where the question has a size: what has an answer first, what only failed next, what was not measured last.
    const standing = (l) => (l.best ? 0 : [...l.cells.values()].some((c) => c.state > ABSENT) ? 1 : 2);
    return q.k === null && q.batch === null ? lines : lines.sort((a, b) => standing(a) - standing(b));
  };
  const sure = (line) => {
    if (!line.best) {
      const bad = [...line.cells.values()].find((c) => c.state > ABSENT);
      return bad ? `nothing certified: ${bad.solver} ${E.states[bad.state]}` : "not measured";
    }
    const [first, second] = line.order;
    const ratio = second && factor(second.time / first.time);
    const words = !second ? "nothing else certified" : tie(first, second) ? `tie with ${second.solver}`
      : overlap(first, second) ? `likely ${ratio} × faster than ${second.solver}, intervals overlap` : `${ratio} × faster than ${second.solver}`;
    return words + (first.distance ? `; estimated, ${first.distance.toFixed(1)} decades from what was measured` : "");
  };
  // For a shell: names come from files, and this text is copied into a terminal.
  const quoted = (text) => (/^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'"'"'`)}'`);
  const command = (q, line) => {
    const mode = q.need === "argmax-gradient" ? "implicit" : "envelope";
    const sizes = [["k", line.k], ["batch", line.batch], ["rank", line.kind.rank]].filter(([, x]) => x !== null).map(([n, x]) => `${n}=${x}`).join(", ");
    const place = `--backend ${quoted(q.backend)} --device ${quoted(q.device)} --dtype ${quoted(q.dtype)}`;
    return `gfy compare ${place} --gradient ${mode} --tol ${q.accuracy} --problem ${quoted(`${line.kind.family}(${sizes})`)}`;
  };
  const copy = async (button, label, text) => {
    try { await navigator.clipboard.writeText(text); } catch {
      const area = make("textarea", text); // where the page was opened from disk
      document.body.append(area); area.select(); document.execCommand("copy"); area.remove();
    }
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = label; }, 1500);
  };
  const copier = (label, text) => {
    const b = make("button", label, { type: "button", class: "copy", title: text });
    b.addEventListener("click", () => copy(b, label, text));
    return b;
  };

  const { SHAPES, colour, shape, chart } = window.gfyCharts(E.solvers);
  let open = null;
  let lost = []; // what the address asks for and the page does not have
  const draw = () => {
    const q = ask();
    const lines = answer(q);
    const used = new Set(lines.flatMap((l) => [...l.cells.values()].filter((c) => c.state !== ABSENT).map((c) => c.solver)));
    const groups = Object.entries(E.origins).map(([o, title]) => [title, E.solvers.filter((s) => s[1] === o && used.has(s[0])).map((s) => s[0]).sort()]).filter(([, names]) => names.length);
    const solvers = groups.flatMap(([, names]) => names);
    const top = make("tr");
    top.append(make("th", "Problem", { rowspan: 2, scope: "col" }), make("th", "Use", { rowspan: 2, scope: "col" }));
    for (const [title, names] of groups) top.append(make("th", title, { colspan: names.length, scope: "colgroup", class: "group" }));
    const heads = make("tr");
    for (const s of solvers) { const th = make("th", null, { scope: "col", class: "s" }); th.append(make("span", s)); heads.append(th); }
    table.tHead.replaceChildren(top, heads);
    open = null;
    table.tBodies[0].replaceChildren(...lines.map((line) => row(q, line, solvers)));
    const place = [{ jax: "JAX", torch: "PyTorch", numpy: "NumPy" }[q.backend] ?? q.backend, q.device, q.dtype];
    for (const name of ["k", "batch"]) if (q[name] !== null) place.push(`${name} = ${q[name]}`);
    const answered = lines.filter((l) => l.best).length;
    const words = [`${place.join(", ")}: ${E.needs[q.need]}, certified to ${power(Number(q.accuracy))}. ${answered} of ${lines.length} problems have an answer.`];
    for (const node of form.querySelectorAll("input")) {
      const wrong = node.value.trim() !== "" && q[node.name] === null;
      node.setAttribute("aria-invalid", wrong);
      if (wrong) words.push(`${node.name} is ${node.value.trim()}, which is left out: it must be a whole number from 1 on.`);
    }
    if (lost.length) words.push(`The address also asks for ${lost.join(", ")}, which this page does not have.`);
    said.textContent = words.join(" ");
  };
  const row = (q, line, solvers) => {
    const tr = make("tr");
    const th = make("th", null, { scope: "row" });
    const button = make("button", `${line.kind.name}, ${size(line.k, line.batch)}`, { type: "button", class: "open", "aria-expanded": "false" });
    button.addEventListener("click", () => toggle(tr, button, q, line, solvers.length + 2));
    th.append(button);
    const use = make("td", null, { class: "use" });
    if (line.best) {
      const b = line.best;
      use.append(make("strong", b.solver), " ");
      if (b.gradient !== "none") use.append(make("span", b.gradient, { class: "chip" }), " ");
      use.append(make("a", seconds(b.time), { href: b.link }), " ", make("span", `to ${seconds(b.high)}; ${sure(line)}`, { class: "muted" }), " ", copier("Copy code", b.code));
    } else {
      use.append(make("span", sure(line), { class: "none" }));
      if (![...line.cells.values()].some((c) => c.state > ABSENT)) use.append(" ", copier("Copy the command that measures it", command(q, line)));
    }
    tr.append(th, use, ...solvers.map((s) => cellOf(line, s)));
    return tr;
  };
  const cellOf = (line, solver) => {
    const c = line.cells.get(solver);
    const td = make("td", null, { class: "c", "data-solver": solver });
    if (!c || c.state === ABSENT) {
      td.className = "c gap";
      td.title = `${solver}: not measured${c && c.reason ? ", " + c.reason : ""}`;
      td.append(make("span", "·", { "aria-hidden": "true" }), make("span", "not measured", { class: "hidden" }));
    } else if (c.state === CERTIFIED) {
      const r = c.time / line.best.time;
      if (c.busy) td.className = "c busy";
      td.style.setProperty("--s", shade(r).toFixed(2));
      td.title = `${c.gradient === "none" ? solver : `${solver} with ${c.gradient}`}: ${seconds(c.time)} (to ${seconds(c.high)})${c.busy ? ", timed while the machine was busy" : ""}`;
      td.textContent = factor(r);
    } else if (c.state === REFUSED) {
      td.className = "c gap";
      td.title = `${solver} does not apply: ${c.reason}`;
      td.textContent = "—";
    } else {
      td.className = "c bad";
      td.title = `${solver}, ${E.states[c.state]}: ${c.reason}`;
      td.append("✗", make("span", " " + E.states[c.state], { class: "hidden" }));
    }
    return td;
  };

  // Details of one line: its charts, every solver in words, the rows behind it.
  const toggle = (tr, button, q, line, columns) => {
    const same = open && open.tr === tr;
    close();
    if (same) return;
    const detail = make("tr", null, { class: "detail" });
    const td = make("td", null, { colspan: columns });
    detail.append(td);
    tr.after(detail);
    button.setAttribute("aria-expanded", "true");
    open = { tr, detail, button };
    const held = make("div", null, { class: "held" }); // stays in view while a wide table is scrolled
    held.append(...details(q, line));
    td.append(held);
    if (detail.getBoundingClientRect().bottom > window.innerHeight) tr.scrollIntoView(); // the line on top, its details below
  };
  const close = () => {
    if (!open) return;
    open.detail.remove();
    open.button.setAttribute("aria-expanded", "false");
    open = null;
  };
  document.addEventListener("keydown", (e) => {
    if (e.key !== "Escape" || !open || document.querySelector("dialog[open]")) return;
    const { button } = open;
    close();
    button.focus();
  });
  const rowsOf = (q, line) => {
    const { data, value, number } = window.gfyRows;
    const group = data.groups.d.indexOf(q.machine); // -1 where one machine alone was measured
    const out = [];
    for (let i = 0; i < data.n; i += 1) {
      if (data.kinds[i] !== line.number || (group >= 0 && data.groups.c[i] !== group) || value("backend", i) !== q.backend || value("device", i) !== q.device || value("dtype", i) !== q.dtype) continue;
      const r = { id: value("id", i), solver: value("solver", i), gradient: value("gradient", i) };
      for (const n of ["k", "batch", "tol", "gap_rel", "steady_s", "backward_s", "argmax_grad_s", "steps", "grad_error", "argmax_grad_error", "grad_bound", "compile_s", "backward_compile_s", "break_even", "temp_bytes", "backward_temp_bytes", "peak_host_bytes", "loaded"]) r[n] = data.columns[n] ? number(value(n, i)) : null;
      out.push(r);
    }
    return out;
  };
  const details = (q, line) => {
    const all = rowsOf(q, line);
    const here = all.filter((r) => r.k === line.k && r.batch === line.batch);
    const shown = here.length ? here : all;
    const time = { "loss-gradient": "backward_s", "argmax-gradient": "argmax_grad_s", solve: "steady_s" }[q.need];
    const error = q.need === "argmax-gradient" ? "argmax_grad_error" : "grad_error";
    const memory = q.need === "solve" ? "temp_bytes" : "backward_temp_bytes";
    const compile = q.need === "solve" ? "compile_s" : "backward_compile_s";
    const charts = [
      ["Certified gap against time", shown, time, "seconds", "gap_rel", "certified relative gap"],
      ["Certified gap against steps", shown, "steps", "steps", "gap_rel", "certified relative gap"],
      ["Growth with k", all, "k", "k", time, "seconds"],
      ["Growth with the batch", all, "batch", "batch", time, "seconds"],
      [q.need === "argmax-gradient" ? "Error of dp*/dv" : "Error of the gradient, with its bound", shown, "gap_rel", "certified relative gap", error, "relative error", "grad_bound"],
      ["Memory", shown, time, "seconds", memory, "bytes"],
      ["Compiling, and calls until it pays", shown, compile, "seconds to compile", "break_even", "calls"],
    ];
    const names = [...new Set(all.map((r) => r.solver))].sort();
    const hidden = new Set();
    const box = make("div", null, { class: "charts" });
    const redraw = () => box.replaceChildren(...charts.map((c) => chart(c, hidden, line.kind.name)).filter(Boolean));
    const picks = make("fieldset", null, { class: "picks" });
    picks.append(make("legend", "Solvers drawn"));
    for (const n of names) {
      const label = make("label", null, { class: "check" });
      const tick = make("input", null, { type: "checkbox", checked: "" });
      tick.addEventListener("change", () => { if (tick.checked) hidden.delete(n); else hidden.add(n); redraw(); });
      const dot = make("span", SHAPES[shape(n)], { "aria-hidden": "true" });
      dot.style.color = colour(n);
      label.append(tick, dot, n);
      picks.append(label);
    }
    redraw();
    const list = make("ul", null, { class: "told" });
    const others = new Map(); // what is not certified: solvers of one reason stand together
    for (const c of [...line.order, ...[...line.cells.values()].filter((x) => x.state !== CERTIFIED).sort((a, b) => a.state - b.state)]) {
      const named = c.gradient === "none" ? "" : ` with ${c.gradient}`;
      const name = c.link ? make("a", c.solver, { href: c.link, title: `the rows of ${c.solver}` }) : make("span", c.solver);
      if (c.state === CERTIFIED) {
        const item = make("li");
        item.append(name, `${named}: ${seconds(c.time)} (${seconds(c.low)} to ${seconds(c.high)})`);
        list.append(item);
        continue;
      }
      const words = `${E.states[c.state]}${c.reason ? ": " + c.reason : ""}`;
      if (!others.has(words)) others.set(words, make("li", words + ": "));
      else others.get(words).append(", ");
      others.get(words).append(name, named);
    }
    list.append(...others.values());
    const parts = [];
    if (line.best) parts.push(make("pre", line.best.code, { class: "code", tabindex: "0" }));
    const measure = make("p");
    measure.append("Measure it yourself: ", make("code", command(q, line)), " ", copier("Copy", command(q, line)));
    const shut = make("button", "Close (Escape)", { type: "button" });
    shut.addEventListener("click", () => { const b = open && open.button; close(); if (b) b.focus(); });
    return [list, ...parts, ...(names.length ? [picks, box] : []), measure, shut];
  };
  // The address carries the question: read it at the start, write it at every change.
  // It holds all of the question, since another build of the page may begin with another one.
  const fields = [...form.querySelectorAll("select,input")];
  for (const node of fields) node.disabled = false;
  for (const [name, wanted] of new URLSearchParams(location.search)) {
    const node = fields.find((n) => n.name === name);
    const option = node?.options && [...node.options].find((o) => o.value === wanted || Number(o.value) === Number(wanted)); // 1e-6 is 1e-06
    if (option || node?.tagName === "INPUT") node.value = option ? option.value : wanted;
    else lost.push(`${name} = ${wanted}`);
  }
  const address = () => {
    const asked = fields.filter((n) => n.value.trim()).map((n) => [n.name, n.value.trim()]);
    return `${location.pathname}?${new URLSearchParams(asked)}`;
  };
  const changed = () => {
    lost = [];
    try { history.replaceState(null, "", address()); } catch { /* some browsers refuse this for files; the link button still works */ }
    draw();
  };
  for (const node of fields) node.addEventListener(node.tagName === "INPUT" ? "input" : "change", changed);
  form.addEventListener("submit", (e) => e.preventDefault());
  share.hidden = false;
  share.addEventListener("click", () => copy(share, "Copy link", new URL(address(), location.href).href));
  draw();
  window.gfyAnswer = (q) => answer({ machine: undefined, problem: "", k: null, batch: null, ...q }).map((l) => [l.kind.name, l.k, l.batch, l.best ? l.best.solver : null, l.best ? l.best.time : null, sure(l)]);
});
