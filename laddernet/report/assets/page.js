"use strict";
(() => {
  // Text of a user is only ever set as textContent or as an attribute's value, never parsed as markup.

  // --- Small tools ----------------------------------------------------------------------------------------------

  const read = (name) => JSON.parse(document.getElementById(`data-${name}`).textContent);
  const at = (id) => document.getElementById(id);
  const study = read("study");
  let curves = { axes: [], runs: [] }; // read after the table is on the screen
  let pictures = [];

  function make(kind, attributes = {}, ...children) {
    return fill(document.createElement(kind), attributes, children);
  }

  function draw(kind, attributes = {}, ...children) {
    return fill(document.createElementNS("http://www.w3.org/2000/svg", kind), attributes, children);
  }

  function fill(element, attributes, children) {
    for (const [name, value] of Object.entries(attributes)) {
      if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
      else if (value !== null && value !== undefined && value !== false)
        element.setAttribute(name, value === true ? "" : value);
    }
    element.append(...children.filter((child) => child !== null && child !== undefined));
    return element;
  }

  const minus = (text) => text.replace("-", "−");
  const fixed = (number, digits = 3) => (number === null ? "–" : minus(number.toFixed(digits)));
  const isSpread = (se) => se !== null && se >= 0.0005; // a few equal runs are no certainty, which ± 0.000 would claim
  const signed = (number) => (number >= 0 ? "+" : "") + fixed(number);
  const short = (number) => minus(String(+number.toPrecision(3)));
  const chance = (p) => (p < 0.001 ? "p < 0.001" : `p = ${p.toFixed(3)}`);
  const count = (n, word) => `${n} ${word}${n === 1 ? "" : "s"}`;
  const mean = (numbers) => numbers.reduce((a, b) => a + b, 0) / numbers.length;
  const clamp = (x, low, high) => Math.min(high, Math.max(low, x));
  const labelled = (labels) => `${labels.toLocaleString("en-GB")} labels`;
  const shortened = (text, length) => (text.length > length ? `${text.slice(0, length - 1)}…` : text);
  const dark = () => !printing && matchMedia("(prefers-color-scheme: dark)").matches;
  let printing = false;

  // --- Colours, never the only sign -----------------------------------------------------------------------------

  const VIRIDIS = ["440154", "482878", "3e4989", "31688e", "26828e", "1f9e89", "35b779", "6ece58", "b5de2b", "fde725"].map(
    (hex) => [0, 2, 4].map((place) => parseInt(hex.slice(place, place + 2), 16)),
  );

  /** Red, green and blue of a place between 0 and 1. */
  function viridis(place) {
    const x = clamp(place, 0, 1) * (VIRIDIS.length - 1);
    const i = Math.min(Math.floor(x), VIRIDIS.length - 2);
    return VIRIDIS[i].map((c, k) => Math.round(c + (x - i) * (VIRIDIS[i + 1][k] - c)));
  }

  const rgb = (colour) => `rgb(${colour.join(" ")})`;

  /** Black or white, whichever can be read better on a colour (relative luminance as WCAG has it). */
  function ink(colour) {
    const [r, g, b] = colour.map((c) => (c / 255 <= 0.04 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.18 ? "#000" : "#fff";
  }

  // Okabe and Ito's colours, each in three kinds of line: enough for 21 models.
  const LINES = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8a8a8a"];
  const DASHES = [null, "7 3", "2 2.5"];
  const lineOf = (model) => ({
    stroke: LINES[model.place % LINES.length],
    "stroke-dasharray": DASHES[Math.floor(model.place / LINES.length) % DASHES.length],
  });

  function swatch(model) {
    const line = draw("line", { x1: 1, x2: 27, y1: 6, y2: 6, "stroke-width": 3, ...lineOf(model) });
    return draw("svg", { width: 28, height: 12, "aria-hidden": "true", class: "swatch" }, line);
  }

  // --- Controls -------------------------------------------------------------------------------------------------

  let names = 0;

  /** Radio buttons that look like one: options are pairs of a value and a text. */
  function choice(legend, options, chosen, change) {
    const name = `choice-${names++}`;
    const buttons = options.map(([value, text]) => {
      const input = make("input", { type: "radio", name, value, onchange: () => change(value) });
      input.checked = value === chosen;
      return make("label", {}, input, make("span", {}, text));
    });
    return make("fieldset", { class: "choice" }, make("legend", {}, legend), ...buttons);
  }

  function tick(text, checked, change) {
    const input = make("input", { type: "checkbox", onchange: () => change(input.checked) });
    input.checked = checked;
    return make("label", { class: "tick" }, input, text);
  }

  function select(text, options, chosen, change) {
    const list = make("select", { onchange: () => change(list.value) });
    list.append(...options.map(([value, shown]) => make("option", { value }, shown)));
    list.value = chosen;
    return make("label", {}, `${text} `, list);
  }

  /** Heads that sort: each press goes from ascending to descending to the order in which the rows came. */
  function sorter(columns, changed) {
    const order = { column: null, down: false };
    const heads = columns.map(({ text, detail, key }, place) => {
      if (!key) return make("th", { scope: "col" }, text);
      const arrow = make("span", { class: "arrow", "aria-hidden": "true" });
      const button = make("button", { type: "button", onclick: () => press(place) }, text, arrow);
      return make("th", { scope: "col", "aria-sort": "none" }, button, detail ?? null);
    });
    function press(place) {
      if (order.column !== place) Object.assign(order, { column: place, down: false });
      else if (!order.down) order.down = true;
      else order.column = null;
      heads.forEach((head, i) => {
        if (columns[i].key)
          head.setAttribute("aria-sort", i !== order.column ? "none" : order.down ? "descending" : "ascending");
      });
      changed();
    }
    /** Sorted; what has no value is last in either direction. */
    function sort(rows) {
      if (order.column === null) return rows;
      const key = columns[order.column].key;
      const keyed = rows.map((row) => [key(row), row]);
      const turn = order.down ? -1 : 1;
      const compare = (a, b) =>
        a === null || b === null ? (a === null) - (b === null) : typeof a === "string" ? turn * a.localeCompare(b) : turn * (a - b);
      return keyed.sort(([a], [b]) => compare(a, b)).map(([, row]) => row);
    }
    return { heads, sort };
  }

  // --- Which models are shown -----------------------------------------------------------------------------------

  study.models.forEach((model, place) => {
    model.place = place;
    model.runs = study.labels.map(() => []); // by number of labels
  });
  const byId = new Map(study.models.map((model) => [model.id, model]));
  study.runs.forEach((run, place) => {
    run.place = place;
    byId.get(run.model)?.runs[study.labels.indexOf(run.labels)]?.push(run);
  });

  const filter = { text: "", group: "" };
  const passes = (model) =>
    (!filter.group || model.group === filter.group) &&
    `${model.id} ${model.group} ${model.description}`.toLowerCase().includes(filter.text);
  let shown = study.models; // filtered, in the table's order

  function startFilter() {
    const groups = [...new Set(study.models.map((model) => model.group))];
    at("filter-group").append(...groups.map((group) => make("option", { value: group }, group)));
    at("filter").addEventListener("submit", (event) => event.preventDefault());
    const change = () => {
      filter.text = at("filter-text").value.trim().toLowerCase();
      filter.group = at("filter-group").value;
      showModels();
      showCurves();
    };
    at("filter-text").addEventListener("input", change);
    at("filter-group").addEventListener("change", change);
  }

  function showModels() {
    shown = heat.sort(study.models.filter(passes));
    const all = study.models.length;
    at("filter-count").textContent = shown.length === all ? count(all, "model") : `${shown.length} of ${count(all, "model")}`;
    showTable();
    showSpread();
  }

  // --- Top ------------------------------------------------------------------------------------------------------

  function showTop() {
    at("title").textContent = study.title;
    at("command").textContent = study.command;
    const cells = study.models.flatMap((model) => model.cells);
    const [done, wanted, failed] = ["n", "wanted", "failed"].map((key) => cells.reduce((sum, cell) => sum + cell[key], 0));
    const parts = [`Data: ${study.data}`, count(study.models.length, "model"), `made ${study.created}`];
    at("facts").textContent = parts.join(" · ");
    const tile = (term, value, detail) =>
      make("div", {}, make("dt", {}, term), make("dd", {}, make("strong", {}, value), make("span", {}, detail)));
    const tiles = [tile("Runs finished", `${done} of ${wanted}`, failed ? `${failed} failed` : "none failed")];
    study.labels.forEach((labels, column) => {
      const best = study.models.filter((model) => model.cells[column].best);
      const value = best.length ? `${fixed(best[0].cells[column].aer, 2)} %` : "–";
      tiles.push(tile(`Best with ${labelled(labels)}`, value, best.map((model) => model.id).join(", ") || "no cell is complete"));
    });
    at("tiles").append(...tiles);
  }

  // --- Table ----------------------------------------------------------------------------------------------------

  const hasPaper = study.models.some((model) => model.cells.some((cell) => cell.paper_aer !== null));
  const hasWelch = study.models.some((model) => model.cells.some((cell) => cell.welch));
  const details = { paper: hasPaper, welch: false };

  const ranges = study.labels.map((_, column) => {
    const known = study.models.map((model) => model.cells[column].aer).filter((aer) => aer > 0);
    return [Math.min(...known), Math.max(...known)];
  });

  /** Where an error lies between the lowest and the highest of its column, on a log scale. */
  function placeInColumn(aer, column) {
    const [low, high] = ranges[column];
    return aer > 0 && high > low ? Math.log(aer / low) / Math.log(high / low) : 0;
  }
  const heatColour = (place) => viridis(1 - 0.93 * place);

  const heat = sorter(
    [
      { text: "model", key: (model) => model.id },
      ...study.labels.map((labels, column) => ({ text: labelled(labels), key: (model) => model.cells[column].aer })),
    ],
    () => showModels(),
  );

  function startTable() {
    const changed = (key) => (value) => {
      details[key] = value;
      showTable();
    };
    at("table-controls").append(
      ...(hasPaper ? [tick("the paper’s values", details.paper, changed("paper"))] : []),
      ...(hasWelch ? [tick(`Welch tests against ${study.reference}`, details.welch, changed("welch"))] : []),
    );
    at("heat").append(make("thead", {}, make("tr", {}, ...heat.heads)), make("tbody"));
    const scale = make("span", { class: "ramp", "aria-hidden": "true" });
    scale.style.background = `linear-gradient(to right, ${[0, 0.25, 0.5, 0.75, 1].map((x) => rgb(heatColour(x))).join(", ")})`;
    at("heat-legend").append("lowest of the column ", scale, " highest, on a log scale");
    at("table-notes").append(...tableNotes().map((note) => make("li", {}, note)));
  }

  function tableNotes() {
    const notes = ["★ The best complete cell of its column, also in bold. (7/10): only so many of the wanted runs are finished."];
    if (hasPaper)
      notes.push(
        "Paper: Table 1 of Pezeshki et al. (2016), and our average − the paper’s: ≈ within, ≠ outside two standard errors of the difference.",
      );
    if (hasWelch)
      notes.push(
        `Welch tests: the average − ${study.reference}’s with as many labels, and the p-value after Benjamini and Hochberg’s correction over all tests of the table.`,
      );
    const ranks = study.spearman.map(
      ({ labels, rho, p, n }) => `${labelled(labels)}: ${rho === null ? "–" : `ρ = ${fixed(rho)} (${chance(p)}, ${n} models)`}`,
    );
    if (ranks.length) notes.push(`Spearman rank correlation with the paper’s order: ${ranks.join("; ")}.`);
    return [...study.remarks, ...notes];
  }

  function showTable() {
    const rows = shown.map((model) => {
      const name = make("th", { scope: "row", title: model.description }, make("b", {}, model.id), make("small", {}, model.group));
      return make("tr", { "data-model": model.id }, name, ...model.cells.map(tableCell));
    });
    const none = make("tr", {}, make("td", { colspan: study.labels.length + 1, class: "empty" }, "No model passes the filter."));
    at("heat").tBodies[0].replaceChildren(...(rows.length ? rows : [none]));
  }

  function tableCell(cell, column) {
    const box = make("td");
    if (cell.aer === null) {
      box.className = "empty";
    } else {
      const colour = heatColour(placeInColumn(cell.aer, column));
      box.style.backgroundColor = rgb(colour);
      box.style.color = ink(colour);
    }
    const value = make(cell.best ? "strong" : "span", { class: "value" }, cell.best ? "★ " : "", fixed(cell.aer));
    box.append(value);
    if (isSpread(cell.se)) box.append(make("span", { class: "se" }, ` ± ${fixed(cell.se)}`));
    const remarks = [];
    if (cell.n < cell.wanted) remarks.push(`${cell.n}/${cell.wanted}`);
    if (cell.failed) remarks.push(`${cell.failed} failed`);
    if (remarks.length) box.append(make("span", { class: "remark" }, ` (${remarks.join(", ")})`));
    if (details.paper && cell.paper_aer !== null) {
      const mark = cell.within === null ? "" : cell.within ? "\u00a0≈" : "\u00a0≠";
      const difference = cell.difference === null ? "" : `, ${signed(cell.difference)}${mark}`;
      box.append(make("small", {}, `paper ${fixed(cell.paper_aer)} ± ${fixed(cell.paper_se)}${difference}`));
    }
    if (details.welch && cell.welch)
      box.append(make("small", {}, `${signed(cell.welch.difference)} to ${study.reference}, ${chance(cell.welch.p_adjusted)}`));
    return box;
  }

  // --- Axes -----------------------------------------------------------------------------------------------------

  function linear([low, high], [from, to]) {
    const scale = (x) => from + ((x - low) / (high - low || 1)) * (to - from);
    scale.ticks = (wanted) => {
      const rough = (high - low || 1) / wanted;
      const power = 10 ** Math.floor(Math.log10(rough));
      const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= rough);
      const ticks = [];
      for (let i = Math.ceil(low / step - 1e-9); i * step <= high + 1e-9 * step; i++) ticks.push(+(i * step).toPrecision(12));
      return ticks;
    };
    return scale;
  }

  /** What is not positive is put at the low end. */
  function logarithmic([low, high], range) {
    const inner = linear([Math.log10(low), Math.log10(high)], range);
    const scale = (x) => inner(Math.log10(Math.max(x, low)));
    scale.ticks = (wanted) => {
      for (const steps of [[1, 2, 3, 5, 7], [1, 2, 5], [1, 3], [1]]) {
        const ticks = [];
        for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high); power++)
          for (const step of steps) ticks.push(+(step * 10 ** power).toPrecision(3));
        const inside = ticks.filter((t) => t >= low * 0.999 && t <= high * 1.001);
        if (inside.length <= wanted + 2 || steps.length === 1)
          return inside.length > wanted + 2 ? inside.filter((_, i) => i % Math.ceil(inside.length / wanted) === 0) : inside;
      }
    };
    return scale;
  }

  /** A scale over values with a little room around them. */
  function scaleFor(values, log, range) {
    const used = log ? values.filter((v) => v > 0) : values;
    if (!used.length) return linear([0, 1], range);
    let [low, high] = used.reduce(([a, b], v) => [Math.min(a, v), Math.max(b, v)], [Infinity, -Infinity]);
    if (log) return logarithmic([low / 1.12, high * 1.12], range);
    const room = (high - low || Math.abs(high) || 1) * 0.05;
    return linear([low >= 0 && low < room * 8 ? 0 : low - room, high + room], range);
  }

  const text = (x, y, content, attributes = {}) => draw("text", { x, y, ...attributes }, content);

  function xAxis(x, [left, right], [top, bottom], title, wanted = 6) {
    let last = -Infinity;
    const fits = (tick) => x(tick) - last > 26 && ((last = x(tick)), true);
    const ticks = x.ticks(wanted).filter(fits).map((tick) =>
      draw(
        "g",
        { transform: `translate(${x(tick).toFixed(1)} 0)` },
        draw("line", { y1: top, y2: bottom, class: "grid" }),
        text(0, bottom + 15, short(tick), { "text-anchor": "middle" }),
      ),
    );
    return draw("g", { class: "axis" }, ...ticks, text((left + right) / 2, bottom + 32, title, { "text-anchor": "middle", class: "title" }));
  }

  function yAxis(y, [left, right], [top], title, wanted = 6) {
    const ticks = y.ticks(wanted).map((tick) =>
      draw(
        "g",
        { transform: `translate(0 ${y(tick).toFixed(1)})` },
        draw("line", { x1: left, x2: right, class: "grid" }),
        text(left - 6, 4, short(tick), { "text-anchor": "end" }),
      ),
    );
    return draw("g", { class: "axis" }, ...ticks, text(left, top - 10, title, { class: "title" }));
  }

  const picture = (width, height, label, ...children) =>
    draw("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": label }, ...children);

  const path = (points) => points.map(([x, y], i) => `${i ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");

  // --- Spread ---------------------------------------------------------------------------------------------------

  const spread = { log: true };

  function startSpread() {
    const scale = choice("scale", [["log", "log"], ["linear", "linear"]], "log", (value) => {
      spread.log = value === "log";
      showSpread();
    });
    at("spread-controls").append(scale);
    at("spread-key").textContent =
      `○ a seed, ┃ the mean, shaded one standard error to each side${hasPaper ? ", ▽ the paper’s mean" : ""}. The models are those of the table, in its order.`;
  }

  function showSpread() {
    const width = clamp(Math.floor(at("spread-panels").clientWidth / study.labels.length) - 16, 320, 640);
    at("spread-panels").replaceChildren(...study.labels.map((labels, column) => spreadPanel(labels, column, width)));
  }

  function spreadPanel(labels, column, width) {
    const row = 22;
    const [left, right, top] = [124, width - 14, 10];
    const bottom = top + row * Math.max(shown.length, 1);
    const errors = (model) => model.runs[column].map((run) => run.error).filter((error) => error !== null);
    const values = shown.flatMap((model) => {
      const { aer, se, paper_aer } = model.cells[column];
      return [...errors(model), ...(aer === null ? [] : [aer - (se ?? 0), aer + (se ?? 0)]), ...(paper_aer === null ? [] : [paper_aer])];
    });
    const x = scaleFor(values, spread.log, [left + 6, right - 6]);
    const rows = shown.map((model, i) => {
      const { aer, se, paper_aer } = model.cells[column];
      const y = top + row * (i + 0.5);
      const name = text(left - 8, 4, shortened(model.id, 18), { "text-anchor": "end" });
      const marks = [];
      if (aer !== null && isSpread(se)) {
        const from = x(aer - se);
        marks.push(draw("rect", { x: from.toFixed(1), y: -7, width: Math.max(1, x(aer + se) - from).toFixed(1), height: 14, class: "se" }));
      }
      // A little up or down by turns, so that equal seeds do not hide each other.
      errors(model).forEach((error, k) => marks.push(draw("circle", { cx: x(error).toFixed(1), cy: ((2 * k) % 5) - 2, r: 3.2, class: "seed" })));
      if (aer !== null) marks.push(draw("line", { x1: x(aer).toFixed(1), x2: x(aer).toFixed(1), y1: -9, y2: 9, class: "mean" }));
      if (paper_aer !== null) marks.push(draw("path", { d: "M-4 -10h8l-4 7z", transform: `translate(${x(paper_aer).toFixed(1)} 0)`, class: "paper" }));
      const value = aer === null ? "no run is finished" : `${fixed(aer)}${isSpread(se) ? ` ± ${fixed(se)}` : ""} %, ${count(errors(model).length, "seed")}`;
      const hit = draw("rect", { x: 0, y: -row / 2, width, height: row, class: "band" }); // so that all of the row is pointed at
      return draw("g", { transform: `translate(0 ${y})` }, draw("title", {}, `${model.id}: ${value}`), hit, name, ...marks);
    });
    const bands = shown.map((_, i) => draw("rect", { y: top + row * i, width, height: row, class: i % 2 ? "band odd" : "band" }));
    const label = `Error of each seed, with ${labelled(labels)}: the numbers are in the table above.`;
    const axis = xAxis(x, [left, right], [top, bottom], "test error, %", Math.floor(width / 75));
    const svg = picture(width, bottom + 38, label, ...bands, axis, ...rows);
    return make("figure", {}, make("figcaption", {}, labelled(labels)), svg);
  }

  // --- Curves ---------------------------------------------------------------------------------------------------

  const chart = { column: 0, quantity: "", log: true, seeds: true, on: new Set(), epoch: null, lines: [], move: () => {} };

  const QUANTITIES = {
    validation_error: "validation error, %",
    test_error: "test error, %",
    cost: "cost",
    cross_entropy: "cross entropy",
    learning_rate: "learning rate",
  };
  function quantityName(quantity) {
    const layer = /^reconstruction_(\d+)$/.exec(quantity);
    return layer ? `reconstruction cost, layer ${layer[1]}` : (QUANTITIES[quantity] ?? quantity);
  }

  function startCurves() {
    const held = new Set(curves.runs.flatMap(Object.keys));
    const known = [...Object.keys(QUANTITIES).filter((name) => held.has(name)), ...[...held].filter((name) => !(name in QUANTITIES)).sort()];
    if (!known.length) {
      at("curves").hidden = true;
      document.querySelector('nav a[href="#curves"]').hidden = true;
      return;
    }
    chart.quantity = known[0];
    chart.on = new Set(firstCurves());
    const change = (key, from = (value) => value) => (value) => {
      chart[key] = from(value);
      showCurves();
    };
    at("curves-controls").append(
      select("Show", known.map((name) => [name, quantityName(name)]), chart.quantity, change("quantity")),
      choice("labels", study.labels.map((labels, i) => [i, labels.toLocaleString("en-GB")]), 0, change("column")),
      choice("scale", [["log", "log"], ["linear", "linear"]], "log", change("log", (value) => value === "log")),
      tick("each seed", true, change("seeds")),
    );
    const turn = (on) => () => {
      shown.forEach((model) => (on ? chart.on.add(model) : chart.on.delete(model)));
      showCurves();
    };
    at("curves-all").append(
      make("button", { type: "button", onclick: turn(true) }, "all on"),
      make("button", { type: "button", onclick: turn(false) }, "all off"),
    );
    const figure = at("curves-chart");
    figure.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity }[event.key];
      if (step === undefined) return;
      event.preventDefault();
      chart.move(step);
    });
    showCurves();
  }

  /** Few enough to be told apart: the reference, the baselines, and the best of each column; or all of a small study. */
  function firstCurves() {
    const some = study.models.filter(
      (model) => [study.reference, "baseline", "no-lateral"].includes(model.id) || model.cells.some((cell) => cell.best),
    );
    return study.models.length <= 7 || !some.length ? study.models.slice(0, 7) : some;
  }

  /** A model's curves for what is chosen: of each seed, and their mean where all have a value. */
  function curvesOf(model) {
    const seeds = model.runs[chart.column]
      .map((run) => curves.runs[run.place]?.[chart.quantity])
      .filter((curve) => curve?.[1].length)
      .map(([axis, values]) => values.map((value, i) => [curves.axes[axis][i], value]));
    const found = new Map();
    for (const [epoch, value] of seeds.flat()) found.set(epoch, [...(found.get(epoch) ?? []), value]);
    const average = [...found].filter(([, values]) => values.length === seeds.length).map(([epoch, values]) => [epoch, mean(values)]);
    return { model, seeds, average: average.sort(([a], [b]) => a - b) };
  }

  function showCurves() {
    if (!chart.quantity) return;
    const boxes = shown.map((model) => {
      const box = tick(model.id, chart.on.has(model), (on) => {
        if (on) chart.on.add(model);
        else chart.on.delete(model);
        drawCurves();
      });
      box.insertBefore(swatch(model), box.lastChild);
      const light = (on) => () => chart.lines.forEach(([other, line]) => line.classList.toggle("dim", on && other !== model && chart.on.has(model)));
      return make("li", { onmouseenter: light(true), onmouseleave: light(false), onfocusin: light(true), onfocusout: light(false) }, box);
    });
    at("curves-models").replaceChildren(...boxes);
    drawCurves();
  }

  function drawCurves() {
    const figure = at("curves-chart");
    const width = Math.max(320, figure.clientWidth);
    const height = clamp(width * 0.55, 300, 460);
    const [left, right, top, bottom] = [56, width - 14, 26, height - 40];
    const lines = shown.filter((model) => chart.on.has(model)).map(curvesOf).filter(({ seeds }) => seeds.length);
    const points = lines.flatMap(({ seeds, average }) => (chart.seeds ? seeds.flat() : average));
    const epochs = [...new Set(lines.flatMap(({ average }) => average.map(([epoch]) => epoch)))].sort((a, b) => a - b);
    const x = linear([epochs[0] ?? 0, epochs.at(-1) ?? 1], [left, right]);
    const y = scaleFor(points.map(([, value]) => value), chart.log, [bottom, top]);
    const at2 = ([epoch, value]) => [x(epoch), y(value)];
    chart.lines = lines.map(({ model, seeds, average }) => {
      const thin = chart.seeds ? [draw("path", { d: seeds.map((seed) => path(seed.map(at2))).join(""), class: "thin", stroke: lineOf(model).stroke })] : [];
      const thick = draw("path", { d: path(average.map(at2)), class: "thick", ...lineOf(model) });
      return [model, draw("g", { "data-model": model.id, class: "curve" }, ...thin, thick)];
    });
    const hair = draw("line", { y1: top, y2: bottom, class: "hair" });
    const label = `${quantityName(chart.quantity)} by epoch, with ${labelled(study.labels[chart.column])}`;
    const svg = picture(
      width, height, label,
      xAxis(x, [left, right], [top, bottom], "epoch", 8), yAxis(y, [left, right], [top], quantityName(chart.quantity)),
      ...chart.lines.map(([, line]) => line), hair,
    );
    const values = make("ul", { class: "readout", "aria-live": "polite" });
    const caption = make("figcaption", {}, make("b"), values);
    figure.setAttribute("aria-label", `${label}; left and right arrow keys read it`);

    let place = epochs.length - 1;
    function readAt(next) {
      place = clamp(next, 0, epochs.length - 1);
      const epoch = epochs[place];
      if (epoch === undefined) {
        caption.firstChild.textContent = "No curve is switched on, or none has this quantity.";
        return;
      }
      hair.setAttribute("transform", `translate(${x(epoch).toFixed(1)} 0)`);
      caption.firstChild.textContent = `Epoch ${epoch}`;
      const found = lines.map(({ model, average }) => [model, average.find(([e]) => e === epoch)?.[1]]).filter(([, value]) => value !== undefined);
      found.sort(([, a], [, b]) => a - b);
      values.replaceChildren(
        ...found.map(([model, value]) => make("li", {}, swatch(model), make("span", { class: "name" }, model.id), make("b", {}, minus(value.toPrecision(4))))),
      );
    }
    chart.move = (step) => readAt(step === -Infinity ? 0 : step === Infinity ? epochs.length : place + step);
    svg.addEventListener("pointermove", (event) => {
      const box = svg.getBoundingClientRect();
      const pointed = ((event.clientX - box.left) / box.width) * width;
      let nearest = 0;
      epochs.forEach((epoch, i) => {
        if (Math.abs(x(epoch) - pointed) < Math.abs(x(epochs[nearest]) - pointed)) nearest = i;
      });
      readAt(nearest);
    });
    readAt(place);
    figure.replaceChildren(svg, caption);
  }

  // --- Networks: combinators ------------------------------------------------------------------------------------

  const network = { picture: null, layer: 0, unit: 0, yaw: -0.65, pitch: 0.5 };
  const runByFingerprint = new Map(study.runs.map((run) => [run.fingerprint, run]));

  function startNetworks() {
    const known = pictures.map((picture) => ({ ...picture, run: runByFingerprint.get(picture.fingerprint) })).filter(({ run }) => run);
    if (!known.length) {
      at("networks").hidden = true;
      document.querySelector('nav a[href="#networks"]').hidden = true;
      return;
    }
    const models = [...new Set(known.map(({ run }) => run.model))];
    const labels = [...new Set(known.map(({ run }) => run.labels))].sort((a, b) => a - b);
    const chosen = { model: models.includes(study.reference) ? study.reference : models[0], labels: labels[0] };
    const update = () => {
      network.picture = known.find(({ run }) => run.model === chosen.model && run.labels === chosen.labels);
      showNetwork(chosen);
    };
    const change = (key) => (value) => {
      chosen[key] = value;
      update();
    };
    at("networks-controls").append(
      select("Model", models.map((model) => [model, model]), chosen.model, change("model")),
      choice("labels", labels.map((n) => [n, n.toLocaleString("en-GB")]), chosen.labels, change("labels")),
      make("output", { id: "networks-run" }),
    );
    update();
  }

  function showNetwork(chosen) {
    const { picture } = network;
    const surfaces = picture?.surfaces ?? [];
    at("networks-body").hidden = !surfaces.length;
    at("networks-none").hidden = surfaces.length > 0;
    at("networks-run").textContent = picture ? `seed ${picture.run.seed}, test error ${fixed(picture.run.error, 2)} %` : "";
    at("networks-none").textContent = picture
      ? `${chosen.model} has no decoder, so it has no combinators and does no denoising.`
      : `No run of ${chosen.model} with ${labelled(chosen.labels)} has pictures.`;
    if (!surfaces.length) return;
    const layers = [...new Set(surfaces.map((surface) => surface.layer))];
    if (!layers.includes(network.layer)) network.layer = layers[0];
    showLayers(layers);
    showSurface();
    showDenoising();
  }

  const surfacesOf = (layer) => network.picture.surfaces.filter((surface) => surface.layer === layer);
  const chosenSurface = () => surfacesOf(network.layer)[network.unit] ?? surfacesOf(network.layer)[0];
  const layerName = (layer, top) => (layer === 0 ? "0, input" : layer === top ? `${layer}, top` : String(layer));

  function extent(grid) {
    const values = grid.flat();
    const [low, high] = [Math.min(...values), Math.max(...values)];
    return high - low < 1e-6 ? [low - 0.5, high + 0.5] : [low, high];
  }

  function canvas(width, height, attributes = {}) {
    const sharp = 2; // for fine screens, and for paper
    const element = make("canvas", { width: width * sharp, height: height * sharp, ...attributes });
    element.style.aspectRatio = `${width} / ${height}`;
    element.style.maxWidth = `${width}px`;
    const pen = element.getContext("2d");
    pen.scale(sharp, sharp);
    return [element, pen];
  }

  /** The grid as an image of a pixel a point, u upwards. */
  function heatImage(grid) {
    const n = grid.length;
    const [low, high] = extent(grid);
    const image = make("canvas", { width: n, height: n });
    const pen = image.getContext("2d");
    const pixels = pen.createImageData(n, n);
    grid.forEach((row, i) =>
      row.forEach((value, j) => pixels.data.set([...viridis((value - low) / (high - low)), 255], 4 * ((n - 1 - i) * n + j))),
    );
    pen.putImageData(pixels, 0, 0);
    return image;
  }

  function showLayers(layers) {
    const boxes = layers.map((layer) => {
      const input = make("input", { type: "radio", name: "layer", value: layer, class: "unseen", onchange: () => {
        network.layer = layer;
        showSurface();
      } });
      input.checked = layer === network.layer;
      const grid = (surfacesOf(layer)[network.unit] ?? surfacesOf(layer)[0]).z_hat;
      const [thumb, pen] = canvas(76, 76, { "aria-hidden": "true" });
      pen.drawImage(heatImage(grid), 0, 0, 76, 76);
      return make("label", {}, input, thumb, make("span", {}, `layer ${layerName(layer, layers.at(-1))}`));
    });
    at("layers").replaceChildren(...boxes);
  }

  function showSurface() {
    const units = surfacesOf(network.layer).map((each, i) => [i, each.name]);
    at("units").replaceChildren(
      choice("unit", units, network.unit, (unit) => {
        network.unit = unit;
        showLayers([...new Set(network.picture.surfaces.map(({ layer }) => layer))]);
        drawSurface();
      }),
    );
    drawSurface();
  }

  function drawSurface() {
    const surface = chosenSurface();
    const panel = (caption, element) => make("figure", {}, make("figcaption", {}, caption), element);
    at("surface").replaceChildren(
      panel("the surface", heightField(surface)),
      panel("from above, with contours", contourMap(surface)),
      make("div", {}, panel("cross-sections along z̃", sections(surface, false)), panel("cross-sections along u", sections(surface, true))),
    );
  }

  const inkColour = () => (dark() ? "#e8e8ea" : "#22242a");

  /** A height field that can be turned: far faces are painted first. */
  function heightField({ axis, z_hat: grid, name, layer }) {
    const [width, height] = [430, 390];
    const [low, high] = extent(grid);
    const n = axis.length;
    const unit = (i) => (2 * i) / (n - 1) - 1;
    const level = (value) => 1.3 * ((value - low) / (high - low)) - 0.65;
    const label = `Surface of layer ${layer}, ${name}: ẑ from ${short(low)} to ${short(high)}; arrow keys turn it`;
    const [element, pen] = canvas(width, height, { tabindex: 0, role: "img", "aria-label": label, class: "turn" });

    function paint() {
      const { yaw, pitch } = network;
      const [cy, sy, cp, sp] = [Math.cos(yaw), Math.sin(yaw), Math.cos(pitch), Math.sin(pitch)];
      const project = (x, y, z) => {
        const [a, b] = [x * cy + y * sy, -x * sy + y * cy]; // b: away from the eye
        return [width / 2 + 8 + 126 * a, height / 2 + 2 - 126 * (z * cp + b * sp), b * cp - z * sp];
      };
      const points = grid.map((row, i) => row.map((value, j) => project(unit(j), unit(i), level(value))));
      const faces = [];
      for (let i = 0; i + 1 < n; i++)
        for (let j = 0; j + 1 < n; j++) {
          const corners = [points[i][j], points[i][j + 1], points[i + 1][j + 1], points[i + 1][j]];
          const value = (grid[i][j] + grid[i + 1][j + 1]) / 2;
          const slope = (grid[i][j + 1] - grid[i][j] + grid[i + 1][j] - grid[i][j]) / (high - low);
          faces.push({ corners, depth: mean(corners.map((c) => c[2])), value, light: clamp(0.93 - 0.7 * slope, 0.72, 1.08) });
        }
      faces.sort((a, b) => b.depth - a.depth);
      pen.clearRect(0, 0, width, height);
      const line = (from, to) => {
        pen.beginPath();
        pen.moveTo(from[0], from[1]);
        pen.lineTo(to[0], to[1]);
        pen.stroke();
      };
      pen.lineWidth = 1;
      pen.strokeStyle = pen.fillStyle = inkColour();
      pen.globalAlpha = 0.35;
      const floor = [[-1, -1], [1, -1], [1, 1], [-1, 1]].map(([x, y]) => project(x, y, -0.72));
      floor.forEach((corner, i) => line(corner, floor[(i + 1) % 4]));
      pen.globalAlpha = 1;
      for (const { corners, value, light } of faces) {
        pen.beginPath();
        corners.forEach(([x, y], i) => (i ? pen.lineTo(x, y) : pen.moveTo(x, y)));
        pen.closePath();
        pen.fillStyle = rgb(viridis((value - low) / (high - low)).map((c) => Math.round(clamp(c * light, 0, 255))));
        pen.fill();
        pen.strokeStyle = "rgb(0 0 0 / 0.22)";
        pen.lineWidth = 0.5;
        pen.stroke();
      }
      pen.fillStyle = pen.strokeStyle = inkColour();
      pen.lineWidth = 1;
      pen.font = "12px system-ui, sans-serif";
      pen.textAlign = "center";
      pen.textBaseline = "middle";
      // The axes run along the two edges of the floor that are nearest to the eye.
      const front = (edges) => edges.reduce((a, b) => (project(...a.middle, -0.72)[2] < project(...b.middle, -0.72)[2] ? a : b));
      const along = front([-1, 1].map((y) => ({ middle: [0, y], out: [0, y * 1.28], ends: [[-1, y * 1.12], [1, y * 1.12]] })));
      const across = front([-1, 1].map((x) => ({ middle: [x, 0], out: [x * 1.28, 0], ends: [[x * 1.12, -1], [x * 1.12, 1]] })));
      for (const [edge, symbol] of [[along, "z̃"], [across, "u"]]) {
        pen.font = "italic 15px system-ui, sans-serif";
        pen.fillText(symbol, ...project(...edge.out, -0.72).slice(0, 2));
        pen.font = "12px system-ui, sans-serif";
        edge.ends.forEach((end, i) => pen.fillText(short(i ? axis.at(-1) : axis[0]), ...project(...end, -0.72).slice(0, 2)));
      }
      // ẑ stands at the leftmost corner of the floor.
      const [x, y] = [[-1, -1], [1, -1], [1, 1], [-1, 1]].reduce((a, b) => (project(...a, 0)[0] <= project(...b, 0)[0] ? a : b));
      line(project(x, y, -0.65), project(x, y, 0.65));
      pen.textAlign = "right";
      [[low, -0.65], [high, 0.65]].forEach(([value, z]) => pen.fillText(short(value), project(x, y, z)[0] - 5, project(x, y, z)[1]));
      pen.font = "italic 15px system-ui, sans-serif";
      pen.fillText("ẑ", project(x, y, 0)[0] - 8, project(x, y, 0)[1]);
    }

    const turn = (yaw, pitch) => {
      network.yaw += yaw;
      network.pitch = clamp(network.pitch + pitch, 0.08, 1.45);
      paint();
    };
    element.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: [-0.12, 0], ArrowRight: [0.12, 0], ArrowUp: [0, 0.1], ArrowDown: [0, -0.1] }[event.key];
      if (!step) return;
      event.preventDefault();
      turn(...step);
    });
    element.addEventListener("pointerdown", (event) => element.setPointerCapture(event.pointerId));
    element.addEventListener("pointermove", (event) => {
      if (event.buttons & 1) turn(event.movementX * 0.01, event.movementY * 0.008);
    });
    paint();
    return element;
  }

  function contourMap({ axis, z_hat: grid, name, layer }) {
    const [width, height, left, right, top, bottom] = [370, 370, 40, 364, 8, 332];
    const [element, pen] = canvas(width, height, { role: "img", "aria-label": `Layer ${layer}, ${name}: ẑ over z̃ and u` });
    const x = linear([axis[0], axis.at(-1)], [left, right]);
    const y = linear([axis[0], axis.at(-1)], [bottom, top]);
    const n = axis.length;
    const half = (right - left) / (n - 1) / 2; // a pixel's middle is its value, so the outer ones reach over the edge
    pen.save();
    pen.beginPath();
    pen.rect(left, top, right - left, bottom - top);
    pen.clip();
    pen.imageSmoothingEnabled = true;
    pen.drawImage(heatImage(grid), left - half, top - half, right - left + 2 * half, bottom - top + 2 * half);
    const [low, high] = extent(grid);
    const levels = linear([low, high], [0, 1]).ticks(8);
    const labels = [];
    for (const level of levels) {
      const zero = Math.abs(level) < 1e-9;
      pen.strokeStyle = ink(viridis((level - low) / (high - low)));
      pen.lineWidth = zero ? 1.8 : 0.8;
      const segments = contour(grid, axis, level);
      pen.beginPath();
      for (const [[a, b], [c, d]] of segments) {
        pen.moveTo(x(a), y(b));
        pen.lineTo(x(c), y(d));
      }
      pen.stroke();
      // A label on the contour, where the others are not.
      const free = segments.map(([[a, b]]) => [x(a), y(b)]).filter(([a, b]) => a > left + 16 && a < right - 16 && b > top + 10 && b < bottom - 10);
      const room = ([a, b]) => Math.min(60, ...labels.map((l) => Math.hypot(l.x - a, l.y - b))) - 0.15 * Math.abs(a - b - left + top);
      const best = free.sort((a, b) => room(b) - room(a))[0];
      if (best && room(best) > -30) labels.push({ x: best[0], y: best[1], level, colour: viridis((level - low) / (high - low)) });
    }
    pen.font = "11px system-ui, sans-serif";
    pen.textAlign = "center";
    pen.textBaseline = "middle";
    for (const { x: a, y: b, level, colour } of labels) {
      pen.lineWidth = 4;
      pen.strokeStyle = rgb(colour);
      pen.strokeText(short(level), a, b);
      pen.fillStyle = ink(colour);
      pen.fillText(short(level), a, b);
    }
    pen.restore();
    pen.fillStyle = inkColour();
    pen.font = "12px system-ui, sans-serif";
    for (const tick of x.ticks(4)) {
      pen.textAlign = "center";
      pen.fillText(short(tick), x(tick), bottom + 13);
      pen.textAlign = "right";
      pen.fillText(short(tick), left - 6, y(tick));
    }
    pen.font = "italic 15px system-ui, sans-serif";
    pen.fillText("z̃", (left + right) / 2, bottom + 29);
    pen.fillText("u", left - 24, (top + bottom) / 2 - 18);
    return element;
  }

  /** Where the grid crosses a level, as straight pieces: each triangle of two neighbours and a centre has one at most. */
  function contour(grid, axis, level) {
    const segments = [];
    for (let i = 0; i + 1 < axis.length; i++)
      for (let j = 0; j + 1 < axis.length; j++) {
        const corners = [[j, i], [j + 1, i], [j + 1, i + 1], [j, i + 1]].map(([a, b]) => [axis[a], axis[b], grid[b][a] - level]);
        const centre = [0, 1, 2].map((k) => mean(corners.map((corner) => corner[k])));
        for (let k = 0; k < 4; k++) {
          const triangle = [corners[k], corners[(k + 1) % 4], centre];
          const crossed = [0, 1, 2].map((m) => [triangle[m], triangle[(m + 1) % 3]]).filter(([a, b]) => a[2] >= 0 !== b[2] >= 0);
          if (crossed.length === 2)
            segments.push(crossed.map(([a, b]) => [0, 1].map((m) => a[m] + ((b[m] - a[m]) * a[2]) / (a[2] - b[2]))));
        }
      }
    return segments;
  }

  /** ẑ along one variable for five values of the other, each line with its label at its end. */
  function sections({ axis, z_hat: grid, name, layer }, alongU) {
    const [width, height, left, right, top, bottom] = [350, 205, 40, 284, 18, 168];
    const n = axis.length;
    const x = linear([axis[0], axis.at(-1)], [left, right]);
    const y = scaleFor(extent(grid), false, [bottom, top]);
    const other = alongU ? "z̃" : "u";
    const places = [0, 0.25, 0.5, 0.75, 1].map((part) => Math.round(part * (n - 1)));
    const ends = [];
    const lines = places.map((fixedAt, k) => {
      const values = axis.map((_, i) => (alongU ? grid[i][fixedAt] : grid[fixedAt][i]));
      ends.push({ y: y(values.at(-1)), k });
      const stroke = rgb(viridis(dark() ? 0.36 + 0.16 * k : 0.19 * k));
      return draw("path", { d: path(values.map((value, i) => [x(axis[i]), y(value)])), class: "section", stroke, "stroke-width": 1.6 + 0.4 * k });
    });
    ends.sort((a, b) => a.y - b.y);
    ends.forEach((end, i) => (end.label = Math.max(end.y, i ? ends[i - 1].label + 14 : top)));
    const over = Math.max(0, ends.at(-1).label - bottom);
    const labels = ends.map((end) => text(right + 10, end.label - over + 4, `${other} = ${short(axis[places[end.k]])}`));
    const leaders = ends.map((end) => draw("path", { d: path([[right, end.y], [right + 8, end.label - over]]), class: "leader" }));
    const along = alongU ? "u" : "z̃";
    const label = `Layer ${layer}, ${name}: ẑ along ${along} for five values of ${other}`;
    return picture(
      width, height, label,
      xAxis(x, [left, right], [top, bottom], along, 4), yAxis(y, [left, right], [top], "ẑ", 4), ...lines, ...leaders, ...labels,
    );
  }

  // --- Networks: denoising --------------------------------------------------------------------------------------

  function showDenoising() {
    const layers = network.picture.denoised;
    at("denoising").hidden = !layers.length;
    if (!layers.length) return;
    at("denoising-key").textContent =
      "The same test rows as they are, with the noise of training, and as the decoder reconstructs them. Above the input, a line is a row and a column a unit: blue is −3 or less, white 0, orange 3 or more. The bars are mean squared errors over all rows.";
    const most = Math.max(...layers.flatMap((layer) => [layer.noisy_error, layer.reconstructed_error]));
    const top = Math.max(...layers.map(({ layer }) => layer));
    const boxes = layers.map((layer) => {
      const strips = [["clean", layer.clean], ["noisy", layer.noisy], ["reconstructed", layer.reconstructed]].map(([word, source]) =>
        make("figure", {}, make("img", { src: source, alt: `layer ${layer.layer}, ${word}` }), make("figcaption", {}, word)),
      );
      const removed = 1 - layer.reconstructed_error / layer.noisy_error;
      const percent = Math.round(100 * removed);
      const verdict = !layer.noisy_error
        ? "no noise here"
        : percent >= 0 ? `${percent} % of the noise removed` : `${-percent} % more error than the noise made`;
      const bar = (word, error) => {
        const stripe = make("span", { class: `bar ${word}` });
        stripe.style.width = `${Math.max(1, (100 * error) / most)}%`;
        return make("div", {}, make("span", {}, `${word} ${short(error)}`), make("span", { class: "track" }, stripe));
      };
      const said = make("div", { class: "errors" }, make("b", {}, verdict), bar("noisy", layer.noisy_error), bar("reconstructed", layer.reconstructed_error),
        layer.counted ? null : make("small", {}, "This model’s cost does not ask for this layer."));
      return make("div", { class: layer.images ? "denoised images" : "denoised" }, make("h4", {}, `Layer ${layerName(layer.layer, top)}`), make("div", { class: "strips" }, ...strips), said);
    });
    at("denoising-layers").replaceChildren(...boxes);
  }

  // --- Runs -----------------------------------------------------------------------------------------------------

  const MARKS = { done: "✓", failed: "✗", running: "▸", waiting: "…" };
  const runs = sorter(
    [
      { text: "model", key: (run) => run.model },
      { text: "labels", key: (run) => run.labels },
      { text: "seed", key: (run) => run.seed },
      { text: "status", key: (run) => run.status },
      { text: "test error, %", key: (run) => run.error },
      { text: "seconds", key: (run) => run.seconds },
      { text: "fingerprint", key: (run) => run.fingerprint },
      { text: "" },
    ],
    () => showRuns(),
  );
  let runsShown = 100; // at first: hundreds of rows take long to lay out
  const configOf = (run) => ({ model: run.model, seed: run.seed, ...study.configs[run.config] });

  function startRuns() {
    at("runs-table").append(make("thead", {}, make("tr", {}, ...runs.heads)), make("tbody"));
    const texts = study.configs.map((config) => JSON.stringify(config).toLowerCase());
    const places = study.environments.map((environment) => JSON.stringify(environment).toLowerCase());
    study.runs.forEach((run) => {
      const own = `${run.model} ${run.labels} labels seed ${run.seed} ${run.status} ${run.message ?? ""} ${run.fingerprint}`;
      run.passes = (words) =>
        words.every((word) => own.toLowerCase().includes(word) || texts[run.config].includes(word) || places[run.environment].includes(word));
    });
    at("runs-text").addEventListener("input", showRuns);
    at("runs-more").addEventListener("click", showAllRuns);
    showRuns();
  }

  function showRuns() {
    const words = at("runs-text").value.toLowerCase().split(/\s+/).filter(Boolean);
    const found = runs.sort(study.runs.filter((run) => run.passes(words)));
    const all = study.runs.length;
    at("runs-count").textContent = found.length === all ? count(all, "run") : `${found.length} of ${count(all, "run")}`;
    at("runs-more").hidden = found.length <= runsShown;
    at("runs-more").textContent = `show all ${count(found.length, "run")}`;
    const rows = found.slice(0, runsShown).flatMap((run) => [(run.row ??= runRow(run)), ...(run.details ? [run.details] : [])]);
    at("runs-table").tBodies[0].replaceChildren(...rows);
  }

  function showAllRuns() {
    runsShown = Infinity;
    showRuns();
  }

  function runRow(run) {
    const button = make("button", { type: "button", "aria-expanded": "false", onclick: toggle }, "details");
    const cell = (content, kind) => make("td", { class: kind }, content);
    const row = make(
      "tr", {},
      make("th", { scope: "row" }, run.model), cell(run.labels.toLocaleString("en-GB"), "number"), cell(String(run.seed), "number"),
      cell(`${MARKS[run.status] ?? ""} ${run.status}`, `status ${MARKS[run.status] ? run.status : ""}`),
      cell(fixed(run.error), "number"), cell(run.seconds === null ? "–" : run.seconds.toFixed(1), "number"),
      make("td", {}, make("code", { title: run.fingerprint }, run.fingerprint.slice(0, 8))), make("td", {}, button),
    );
    function toggle() {
      if (run.details) {
        run.details.remove();
        run.details = null;
      } else {
        run.details = make("tr", { class: "details" }, make("td", { colspan: 8 }, runDetails(run)));
        row.after(run.details);
      }
      button.setAttribute("aria-expanded", String(Boolean(run.details)));
    }
    return row;
  }

  function runDetails(run) {
    const list = (title, values) => make("div", {}, make("h4", {}, title), pairs(values));
    return make(
      "div", { class: "run" },
      run.message ? make("p", { class: "notice" }, run.message) : null,
      make("p", {}, "fingerprint ", make("code", {}, run.fingerprint)),
      make("div", { class: "pairs" }, list("Configuration", configOf(run)), list("Environment", study.environments[run.environment])),
    );
  }

  function pairs(values) {
    const shownAs = (value) =>
      value !== null && typeof value === "object" && !Array.isArray(value)
        ? pairs(value)
        : Array.isArray(value) ? value.map((v) => (typeof v === "object" ? JSON.stringify(v) : String(v))).join(", ") : String(value);
    const rows = Object.entries(values).map(([key, value]) => [make("dt", {}, key), make("dd", {}, shownAs(value))]);
    return rows.length ? make("dl", {}, ...rows.flat()) : make("p", {}, "none recorded");
  }

  // --- All of it ------------------------------------------------------------------------------------------------

  function redraw() {
    showSpread();
    if (chart.quantity) drawCurves();
    if (network.picture?.surfaces.length) drawSurface();
  }

  showTop();
  startFilter();
  startTable();
  startSpread();
  showModels();
  // The rest after the first paint: it is below the first screen.
  setTimeout(() => {
    curves = read("curves");
    startCurves();
    startRuns();
    setTimeout(() => {
      pictures = read("pictures");
      startNetworks();
      document.documentElement.dataset.ready = String(Math.round(performance.now()));
    });
  });

  let waiting = 0;
  let width = innerWidth;
  addEventListener("resize", () => {
    if (innerWidth === width) return;
    width = innerWidth;
    clearTimeout(waiting);
    waiting = setTimeout(redraw, 120);
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  addEventListener("beforeprint", () => {
    printing = true;
    document.querySelector(".command").open = true;
    showAllRuns();
    redraw();
  });
  addEventListener("afterprint", () => {
    printing = false;
    redraw();
  });
})();
