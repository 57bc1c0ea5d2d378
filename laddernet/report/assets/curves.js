// Learning curves: the mean of a model's seeds, and each seed.

let curves = { axes: [], runs: [] }; // read after the table is on the screen
const chart = { column: 0, quantity: "", log: true, seeds: true, on: new Set(), move: () => {} };

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
  curves = read("curves");
  const held = new Set(curves.runs.flatMap(Object.keys));
  const known = [...Object.keys(QUANTITIES).filter((name) => held.has(name)), ...[...held].filter((name) => !(name in QUANTITIES)).sort()];
  if (!known.length) return hideSection("curves");
  chart.quantity = known[0];
  chart.on = new Set(firstCurves());
  const change = (key) => (value) => {
    chart[key] = value;
    showCurves();
  };
  at("curves-controls").append(
    select("Show", known.map((name) => [name, quantityName(name)]), chart.quantity, change("quantity")),
    choice("labels", study.labels.map((labels, i) => [i, grouped(labels)]), 0, change("column")),
    scaleChoice(change("log")),
    tick("each seed", true, change("seeds")),
  );
  const turn = (on) => () => {
    shown.forEach((model) => switchCurve(model, on));
    showCurves();
  };
  at("curves-all").append(
    make("button", { type: "button", onclick: turn(true) }, "all on"),
    make("button", { type: "button", onclick: turn(false) }, "all off"),
  );
  at("curves-chart").addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity }[event.key];
    if (step === undefined) return;
    event.preventDefault();
    chart.move(step);
  });
  showCurves();
}

const switchCurve = (model, on) => (on ? chart.on.add(model) : chart.on.delete(model));

/** The first seven models of a small study; else the reference, two baselines and the best of each column. */
function firstCurves() {
  const some = study.models.filter(
    (model) => [study.reference, "baseline", "no-lateral"].includes(model.id) || model.cells.some((cell) => cell.best),
  );
  return study.models.length <= 7 || !some.length ? study.models.slice(0, 7) : some;
}

/** A model's curves of the chosen quantity: each seed's points, and the mean at the epochs that all seeds have. */
function curvesOf(model) {
  const seeds = model.runs[chart.column]
    .map((run) => curves.runs[run.place]?.[chart.quantity])
    .filter((curve) => curve?.[1].length)
    .map(([axis, values], seed) => values.map((value, i) => [curves.axes[axis][i], value, seed]));
  const found = d3.groups(seeds.flat(), ([epoch]) => epoch).filter(([, points]) => points.length === seeds.length);
  const average = found.map(([epoch, points]) => [epoch, d3.mean(points, ([, value]) => value)]);
  return { model, seeds, average: average.sort(([a], [b]) => a - b) };
}

function showCurves() {
  if (!chart.quantity) return;
  const boxes = shown.map((model) => {
    const box = tick(model.id, chart.on.has(model), (on) => {
      switchCurve(model, on);
      drawCurves();
    });
    box.insertBefore(swatch(model), box.lastChild);
    const light = (on) => () =>
      at("curves-chart").querySelectorAll(".thin path, .thick path").forEach((line) => {
        line.classList.toggle("dim", on && chart.on.has(model) && line.getAttribute("aria-label") !== model.id);
      });
    return make("li", { onmouseenter: light(true), onmouseleave: light(false), onfocusin: light(true), onfocusout: light(false) }, box);
  });
  at("curves-models").replaceChildren(...boxes);
  drawCurves();
}

function drawCurves() {
  if (!chart.quantity) return;
  const figure = at("curves-chart");
  const width = Math.max(320, figure.clientWidth);
  const height = clamp(width * 0.55, 300, 460);
  const lines = shown.filter((model) => chart.on.has(model)).map(curvesOf).filter(({ seeds }) => seeds.length);
  const points = lines.flatMap(({ seeds, average }) => (chart.seeds ? seeds.flat() : average));
  const epochs = d3.sort(new Set(lines.flatMap(({ average }) => average.map(([epoch]) => epoch))));
  const label = `${quantityName(chart.quantity)} by epoch, with ${labelled(study.labels[chart.column])}`;
  const svg = plot(label, {
    size: [width, height],
    margins: [26, 14, 40, 56],
    x: { domain: [epochs[0] ?? 0, epochs.at(-1) ?? 1], label: "epoch" },
    y: { ...scaleFor(points.map(([, value]) => value), chart.log, 8), label: quantityName(chart.quantity) },
    marks: lines.flatMap(({ model, seeds, average }) => {
      const ariaLabel = () => model.id;
      const { stroke } = lineOf(model);
      return [
        chart.seeds ? Plot.line(seeds.flat(), { z: "2", stroke, className: "thin", ariaLabel }) : null,
        Plot.line(average, { ...lineOf(model), className: "thick", ariaLabel }),
      ];
    }),
  });
  const caption = make("figcaption", {}, make("b"), make("ul", { class: "readout", "aria-live": "polite" }));
  figure.setAttribute("aria-label", `${label}; left and right arrow keys read it`);
  figure.replaceChildren(svg, caption);
  readCurves(svg, caption, lines, epochs);
}

/** Show the values of one epoch, which the pointer or the arrow keys choose. */
function readCurves(svg, caption, lines, epochs) {
  const [head, values] = caption.children;
  if (!epochs.length) {
    head.textContent = "No curve is switched on, or none has this quantity.";
    chart.move = () => {};
    return;
  }
  const x = svg.scale("x");
  const hair = d3.select(svg).append("line").attr("y1", 26).attr("y2", svg.viewBox.baseVal.height - 40).attr("class", "hair");
  let place = epochs.length - 1;
  function readAt(next) {
    place = clamp(next, 0, epochs.length - 1);
    const epoch = epochs[place];
    hair.attr("transform", `translate(${x.apply(epoch).toFixed(1)} 0)`);
    head.textContent = `Epoch ${epoch}`;
    const found = lines.map(({ model, average }) => [model, average.find(([e]) => e === epoch)?.[1]]).filter(([, value]) => value !== undefined);
    values.replaceChildren(
      ...d3.sort(found, ([, value]) => value).map(([model, value]) =>
        make("li", {}, swatch(model), make("span", { class: "name" }, model.id), make("b", {}, minus(value.toPrecision(4)))),
      ),
    );
  }
  chart.move = (step) => readAt(place + step);
  svg.addEventListener("pointermove", (event) => readAt(d3.bisectCenter(epochs, x.invert(d3.pointer(event, svg)[0]))));
  readAt(place);
}
