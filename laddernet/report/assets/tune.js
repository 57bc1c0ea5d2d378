// The page of searches: each search's history, parallel coordinates and slices.

const searches = read("searches");
let errorLog = true;

const MARGINS = [24, 12, 40, 52];
const about = ({ number, mean }) => `trial ${number}: ${fixed(mean, 2)} %`;
const errorAxis = ({ trials }) => ({ ...scaleFor(trials.map(({ mean }) => mean), errorLog, 6), label: "validation error, %" });

/** Dots of trials over x, hollow if pruned. */
function dots(trials, x, title) {
  const dotsOf = (state) => Plot.dot(trials.filter((trial) => trial.state === state), { x, y: "mean", r: 4, className: state, title });
  return [dotsOf("pruned"), dotsOf("complete")];
}

/** A hyperparameter's values on its own scale from 0 to 1; a value of 0 on a log scale is at its beginning. */
function scaleOf({ log, zero, floor, low, high }) {
  const scale = (log ? d3.scaleLog : d3.scaleLinear)([floor, high], [0, 1]);
  const inside = (log ? logTicks([low, high], 5) : d3.ticks(low, high, 4)).map((value) => [scale(value), short(value)]);
  const place = (value) => (zero && value === 0 ? 0 : scale(value));
  return { place, ticks: zero ? [[0, "0"], ...inside.filter(([at]) => at > 0.12)] : inside };
}

function history(search, width) {
  const { trials, untuned } = search;
  let lowest = Infinity;
  const best = trials.filter(({ state }) => state === "complete").map(({ number, mean }) => [number, (lowest = Math.min(lowest, mean))]);
  const last = d3.max(trials, ({ number }) => number) ?? 1;
  if (best.length) best.push([last, lowest]);
  return plot(`Validation error of ${count(trials.length, "trial")} in their order, and the lowest so far`, {
    size: [width, clamp(width * 0.4, 220, 320)],
    margins: MARGINS,
    x: { domain: [0, last], label: "trial", inset: 6, ticks: d3.ticks(0, last, width / 80).filter(Number.isInteger) },
    y: errorAxis(search),
    marks: [
      untuned === null ? null : Plot.ruleY([untuned], { className: "untuned" }),
      Plot.line(best, { curve: "step-after", className: "best" }),
      ...dots(trials, "number", about),
    ],
  });
}

/** Axes beside each other, or below each other in a narrow window. */
function parallel(search, width) {
  const complete = search.trials.filter(({ state }) => state === "complete");
  const error = scaleFor(complete.map(({ mean }) => mean), errorLog, 6);
  const errorScale = (error.type === "log" ? d3.scaleLog : d3.scaleLinear)(error.domain, [0, 1]).clamp(true);
  const errorTicks = (error.ticks ?? d3.ticks(...error.domain, 5)).map((value) => [errorScale(value), short(value)]);
  const scales = search.parameters.map(scaleOf);
  const axes = [["error, %", errorTicks], ...search.parameters.map(({ name }, i) => [name, scales[i].ticks])];
  const ranked = d3.sort(complete, ({ mean }) => -mean); // the best is drawn last
  const colour = (rank) => viridis(dark() ? 0.3 + 0.7 * rank : 0.85 * (1 - rank));
  const points = ranked.flatMap((trial, i) => {
    const places = [errorScale(trial.mean), ...scales.map(({ place }, k) => place(trial.values[k]))];
    return places.map((place, axis) => ({ place, axis, trial, rank: i / Math.max(ranked.length - 1, 1) }));
  });
  const ticks = axes.flatMap(([, each], axis) => each.map(([place, text]) => ({ place, axis, text })));
  const narrow = width < 105 * axes.length;
  const [along, across] = narrow ? ["x", "y"] : ["y", "x"];
  const on = (options) => ({ [across]: "axis", [along]: "place", ...options });
  const lines = (data, options) => Plot.line(data, on({ z: "trial", stroke: ({ rank }) => colour(rank), title: ({ trial }) => about(trial), ...options }));
  const best = ranked.at(-1);
  const rule = narrow ? Plot.ruleY : Plot.ruleX;
  const tickSide = narrow ? { dy: 11 } : { dx: -6, textAnchor: "end" };
  const nameSide = narrow ? { x: 0, dy: -10, textAnchor: "start" } : { y: 1, dy: -14 };
  return plot(`Error and hyperparameters of ${count(complete.length, "trial")} with all draws`, {
    size: [width, narrow ? 66 * axes.length : 300],
    margins: narrow ? [28, 14, 28, 14] : [28, 40, 14, 60],
    [along]: { domain: [0, 1], axis: null, grid: false },
    [across]: { domain: narrow ? [axes.length - 1, 0] : [0, axes.length - 1], axis: null, grid: false },
    color: { type: "identity" },
    marks: [
      lines(points, { strokeOpacity: 0.7, className: "trials" }),
      lines(points.filter(({ trial }) => trial === best), { strokeWidth: 3.5, className: "winner" }),
      rule(axes, { [across]: (_, i) => i, className: "axes" }),
      Plot.text(ticks, on({ text: "text", className: "marks", ...tickSide })),
      Plot.text(axes, { [across]: (_, i) => i, text: "0", fontWeight: 600, className: "marks names", ...nameSide }),
    ],
  });
}

function slice(search, column) {
  const { name } = search.parameters[column];
  const { place, ticks } = scaleOf(search.parameters[column]);
  const texts = new Map(ticks);
  const x = (trial) => place(trial.values[column]);
  return plot(`Validation error against ${name}, ${count(search.trials.length, "trial")}`, {
    size: [310, 210],
    margins: MARGINS,
    x: { domain: [0, 1], inset: 8, ticks: [...texts.keys()], tickFormat: (at) => texts.get(at), label: name },
    y: errorAxis(search),
    marks: dots(search.trials, x, (trial) => `${about(trial)}, ${name} ${short(trial.values[column])}`),
  });
}

function drawSearch(search, width) {
  const section = at(search.id);
  section.querySelector(".history").replaceChildren(history(search, width));
  section.querySelector(".parallel").replaceChildren(parallel(search, width));
  section.querySelectorAll(".slices figure").forEach((figure, column) => {
    figure.replaceChildren(figure.firstElementChild, slice(search, column));
  });
}

let waiting = 0;

/** Draw one search after the other, and let the browser work in between; for the printer all at once. */
function drawSearches() {
  clearTimeout(waiting);
  const width = clamp(document.querySelector(".history")?.clientWidth ?? 0, 240, 900);
  const drawFrom = (place) => {
    if (place === searches.length) return isReady();
    drawSearch(searches[place], width);
    if (printing) return drawFrom(place + 1);
    waiting = setTimeout(() => drawFrom(place + 1));
  };
  drawFrom(0);
}

at("scale").append(
  scaleChoice((log) => {
    errorLog = log;
    drawSearches();
  }),
);
drawSearches();
drawAgain(drawSearches);
