"use strict";
// Draws the charts of an answer: points that open their rows, zoomed by dragging, one look per solver.
window.gfyCharts = (solvers) => {
  const make = window.gfyMake;
  const colour = (name) => (solvers.find((s) => s[0] === name) ?? [0, 0, "#888"])[2];
  // Solvers of one colour have shapes of their own.
  const SHAPES = { circle: "●", square: "■", diamond: "◆", triangle: "▲", star: "★", cross: "✚", hexagon: "⬢" };
  const shape = (name) => {
    const same = solvers.filter((s) => s[2] === colour(name)).map((s) => s[0]);
    return Object.keys(SHAPES)[Math.max(0, same.indexOf(name)) % Object.keys(SHAPES).length];
  };
  // What a figure on an axis, or in the words of a point, is called.
  const told = (label) => {
    if (/^seconds/.test(label)) return (x) => (x >= 1 ? `${+x.toPrecision(3)} s` : x >= 1e-3 ? `${+(x * 1e3).toPrecision(3)} ms` : `${+(x * 1e6).toPrecision(3)} µs`);
    return /gap|error/.test(label) ? (x) => x.toExponential(0) : d3.format("~s");
  };
  const chart = ([title, rows, x, xlabel, y, ylabel, bound], hidden, name) => {
    const good = rows.filter((r) => !hidden.has(r.solver) && r[x] > 0 && Number.isFinite(r[y])).map((r) => ({ ...r, [x]: Math.max(r[x], 1e-17), [y]: Math.max(r[y], 1e-17) })); // below lies rounding
    if (new Set(good.map((r) => r[x])).size < 2 && /Growth/.test(title)) return null;
    if (!good.length) return null;
    const figure = make("figure");
    figure.append(make("h4", title));
    const hold = make("div", null, { class: "plot", tabindex: "0", role: "group", "aria-label": `${title}, scrolls sideways` });
    const text = (r) => `${r.solver}${r.gradient === "none" ? "" : ", " + r.gradient}\n${xlabel} ${told(xlabel)(r[x])}\n${ylabel} ${told(ylabel)(r[y])}\ntolerance ${r.tol}, k ${r.k}, batch ${r.batch}`;
    let domain = {};
    const render = () => {
      const plot = Plot.plot({
        width: 420, height: 270, marginLeft: 56, inset: domain.x ? 0 : 8, grid: true, style: { background: "none", color: "var(--ink)", fontSize: "11px" },
        x: { type: "log", label: xlabel, ticks: 4, tickFormat: told(xlabel), domain: domain.x }, y: { type: "log", label: ylabel, ticks: 5, tickFormat: told(ylabel), domain: domain.y }, clip: Boolean(domain.x),
        ariaLabel: `${title}, ${name}`, ariaDescription: `${good.length} points of ${[...new Set(good.map((r) => r.solver))].join(", ")}`,
        marks: [
          bound ? Plot.dot(good.filter((r) => r[bound] > 0), { x, y: bound, stroke: "var(--muted)", symbol: "times", r: 3 }) : null,
          Plot.line([...good].sort((a, b) => a[x] - b[x]), { x, y, z: (r) => r.solver + r.gradient, stroke: (r) => colour(r.solver), strokeOpacity: 0.35 }),
          Plot.dot(good, { x, y, fill: (r) => colour(r.solver), fillOpacity: (r) => (r.loaded ? 0.35 : 1), symbol: (r) => shape(r.solver), r: 4, tip: { fill: "var(--paper)" }, title: text, href: (r) => "#row-" + r.id }),
        ],
      });
      plot.querySelectorAll("a").forEach((a) => a.setAttribute("tabindex", "-1"));
      const [sx, sy] = [plot.scale("x"), plot.scale("y")];
      const brush = d3.brush().extent([[56, 20], [400, 240]]).on("end", (e) => {
        if (!e.selection) return;
        const [[a, b], [c, d]] = e.selection;
        domain = { x: [sx.invert(a), sx.invert(c)], y: [sy.invert(d), sy.invert(b)] };
        render();
      });
      const layer = d3.select(plot.tagName === "svg" ? plot : plot.querySelector("svg")).insert("g", ":first-child").attr("class", "brush");
      layer.call(brush);
      const back = make("button", "Show all", { type: "button" });
      back.hidden = !domain.x;
      back.addEventListener("click", () => { domain = {}; render(); });
      hold.replaceChildren(plot, back);
    };
    render();
    figure.append(hold);
    return figure;
  };
  return { SHAPES, colour, shape, chart };
};
