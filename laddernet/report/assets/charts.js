// Charts by Observable Plot, in the page's colours. Colour is never the only sign.

const viridis = d3.interpolateViridis; // from 0 to 1

/** Black or white, whichever has more contrast on a colour. */
const ink = (colour) => (d3.lab(colour).l > 49.5 ? "#000" : "#fff");

let printing = false;
const dark = () => !printing && matchMedia("(prefers-color-scheme: dark)").matches;

/** An SVG with plain numbers and titles at its axes; margins as in CSS, in pixels. */
function plot(label, { size: [width, height], margins, x, y, ...options }) {
  const [marginTop, marginRight, marginBottom, marginLeft] = margins;
  const axis = { tickFormat: short, tickSize: 0, labelArrow: "none", grid: true };
  const svg = Plot.plot({
    className: "plot", // the Content-Security-Policy allows the style that Plot makes for this name
    ariaLabel: label,
    width, height, marginTop, marginRight, marginBottom, marginLeft,
    x: { ...axis, labelAnchor: "center", ...x },
    y: { ...axis, ...y },
    ...options,
  });
  svg.setAttribute("role", "img");
  return svg;
}

/** Round numbers on a log scale, no more than wanted. */
function logTicks([low, high], wanted) {
  const powers = d3.range(Math.floor(Math.log10(low)), Math.log10(high) + 1);
  const found = [[1, 2, 3, 5], [1, 2, 5], [1, 3], [1]].map((steps) =>
    powers.flatMap((power) => steps.map((step) => step * 10 ** power)).filter((tick) => tick >= low && tick <= high),
  );
  const ticks = found.find((each) => each.length <= wanted) ?? found.at(-1);
  return ticks.length > 1 ? ticks : d3.ticks(low, high, wanted - 2);
}

/** A scale over values with a margin; on a log scale, values that are not positive are drawn at its low end. */
function scaleFor(values, log, wanted) {
  const used = log ? values.filter((v) => v > 0) : values;
  if (!used.length) return { domain: [0, 1] };
  const [low, high] = d3.extent(used);
  if (log) {
    const domain = [low / 1.12, high * 1.12];
    return { type: "log", domain, clamp: true, ticks: logTicks(domain, wanted) };
  }
  const room = (high - low || Math.abs(high) || 1) * 0.05;
  return { domain: [low >= 0 && low < room * 8 ? 0 : low - room, high + room] };
}

/** Draw again when the width, the colour scheme or the medium changes. */
function drawAgain(redraw, beforePrint = () => {}) {
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
    document.querySelectorAll(".command").forEach((details) => (details.open = true));
    beforePrint();
    redraw();
  });
  addEventListener("afterprint", () => {
    printing = false;
    redraw();
  });
}

const isReady = () => (document.documentElement.dataset.ready = String(Math.round(performance.now())));
