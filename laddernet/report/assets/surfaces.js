// A combinator ẑ = g(z̃, u) as a surface that turns, as a map with contours, and as cross-sections.

const view = { yaw: -0.65, pitch: 0.5 }; // of all surfaces
const inkColour = () => (dark() ? "#e8e8ea" : "#22242a");
const NUMBERS = "12px system-ui, sans-serif";
const CORNERS = [[-1, -1], [1, -1], [1, 1], [-1, 1]]; // of the floor below a surface
const SYMBOLS = "italic 15px system-ui, sans-serif";

function extentOf(grid) {
  const [low, high] = d3.extent(grid.flat());
  return high - low < 1e-6 ? [low - 0.5, high + 0.5] : [low, high];
}

const coloursOf = (grid) => d3.scaleSequential(extentOf(grid), viridis);

/** The values as an image, u upwards. A value is in the middle of its pixel, so the outer pixels are half outside. */
function raster({ axis, z_hat: grid }) {
  const n = axis.length;
  const half = (axis[1] - axis[0]) / 2;
  const [low, high] = [axis[0] - half, axis.at(-1) + half];
  return Plot.raster(grid.flat(), { width: n, height: n, x1: low, x2: high, y1: low, y2: high, fill: coloursOf(grid), clip: true });
}

function thumbnail(surface) {
  const bare = { domain: d3.extent(surface.axis), axis: null, grid: false };
  const svg = plot("", { size: [76, 76], margins: [0, 0, 0, 0], x: bare, y: bare, color: { type: "identity" }, marks: [raster(surface)] });
  svg.querySelector("style").remove(); // which would be part of the label's text; the other charts have the same
  svg.setAttribute("aria-hidden", "true");
  return svg;
}

// --- The surface ------------------------------------------------------------------------------------------------

/** A surface that can be turned: faces are painted from the far to the near. */
function heightField({ axis, z_hat: grid, name, layer }) {
  const [width, height] = [430, 390];
  const [low, high] = extentOf(grid);
  const n = axis.length;
  const unit = (i) => (2 * i) / (n - 1) - 1;
  const level = (value) => 1.3 * ((value - low) / (high - low)) - 0.65;
  const colour = coloursOf(grid);
  const label = `Surface of layer ${layer}, ${name}: ẑ from ${short(low)} to ${short(high)}; arrow keys turn it`;
  const sharp = 2; // for fine screens, and for paper
  const element = make("canvas", { width: width * sharp, height: height * sharp, tabindex: 0, role: "img", "aria-label": label, class: "turn" });
  element.style.maxWidth = `${width}px`;
  const pen = element.getContext("2d");
  pen.scale(sharp, sharp);
  const path = (...points) => new Path2D(d3.line()(points));

  /** Where a point of the unit cube is painted, and its distance from the eye. */
  function project(x, y, z) {
    const [cy, sy, cp, sp] = [Math.cos(view.yaw), Math.sin(view.yaw), Math.cos(view.pitch), Math.sin(view.pitch)];
    const [a, b] = [x * cy + y * sy, -x * sy + y * cy];
    return [width / 2 + 8 + 126 * a, height / 2 + 2 - 126 * (z * cp + b * sp), b * cp - z * sp];
  }

  function facesOf(points) {
    const faces = d3.cross(d3.range(n - 1), d3.range(n - 1), (i, j) => {
      const corners = [points[i][j], points[i][j + 1], points[i + 1][j + 1], points[i + 1][j]];
      const value = (grid[i][j] + grid[i + 1][j + 1]) / 2;
      const slope = (grid[i][j + 1] - grid[i][j] + grid[i + 1][j] - grid[i][j]) / (high - low);
      return { corners, depth: d3.mean(corners, (c) => c[2]), value, light: clamp(0.93 - 0.7 * slope, 0.72, 1.08) };
    });
    return d3.sort(faces, ({ depth }) => -depth);
  }

  function paint() {
    pen.clearRect(0, 0, width, height);
    pen.lineWidth = 1;
    pen.strokeStyle = inkColour();
    pen.globalAlpha = 0.35;
    pen.stroke(path(...[...CORNERS, CORNERS[0]].map(([x, y]) => project(x, y, -0.72))));
    pen.globalAlpha = 1;
    const points = grid.map((row, i) => row.map((value, j) => project(unit(j), unit(i), level(value))));
    for (const { corners, value, light } of facesOf(points)) {
      const { r, g, b } = d3.rgb(colour(value));
      const face = path(...corners, corners[0]);
      pen.fillStyle = d3.rgb(r * light, g * light, b * light).clamp();
      pen.fill(face);
      pen.strokeStyle = "rgb(0 0 0 / 0.22)";
      pen.lineWidth = 0.5;
      pen.stroke(face);
    }
    paintAxes();
  }

  function paintAxes() {
    pen.fillStyle = pen.strokeStyle = inkColour();
    pen.lineWidth = 1;
    pen.textAlign = "center";
    pen.textBaseline = "middle";
    const write = (font, text, [x, y], shift = 0) => {
      pen.font = font;
      pen.fillText(text, x + shift, y);
    };
    // The axes run along the two edges of the floor that are nearest to the eye.
    const nearest = (edges) => d3.least(edges, ({ middle }) => project(...middle, -0.72)[2]);
    const along = nearest([-1, 1].map((y) => ({ middle: [0, y], out: [0, y * 1.28], ends: [[-1, y * 1.12], [1, y * 1.12]] })));
    const across = nearest([-1, 1].map((x) => ({ middle: [x, 0], out: [x * 1.28, 0], ends: [[x * 1.12, -1], [x * 1.12, 1]] })));
    for (const [edge, symbol] of [[along, "z̃"], [across, "u"]]) {
      write(SYMBOLS, symbol, project(...edge.out, -0.72));
      edge.ends.forEach((end, i) => write(NUMBERS, short(i ? axis.at(-1) : axis[0]), project(...end, -0.72)));
    }
    // The axis of ẑ is at the leftmost corner of the floor.
    const [x, y] = d3.least(CORNERS, (corner) => project(...corner, 0)[0]);
    pen.stroke(path(project(x, y, -0.65), project(x, y, 0.65)));
    pen.textAlign = "right";
    [[low, -0.65], [high, 0.65]].forEach(([value, z]) => write(NUMBERS, short(value), project(x, y, z), -5));
    write(SYMBOLS, "ẑ", project(x, y, 0), -8);
  }

  const turn = (yaw, pitch) => {
    view.yaw += yaw;
    view.pitch = clamp(view.pitch + pitch, 0.08, 1.45);
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

// --- The map ----------------------------------------------------------------------------------------------------

function contourMap(surface) {
  const { axis, z_hat: grid, name, layer } = surface;
  const n = axis.length;
  const [low, high] = d3.extent(axis);
  const side = high - low;
  const place = d3.scaleLinear([0.5, n - 0.5], [low, high]); // of a coordinate of d3.contours
  const colour = coloursOf(grid);
  const labels = [];
  const lines = d3.ticks(...extentOf(grid), 6).flatMap((level) => {
    const { coordinates } = d3.contours().size([n, n]).contour(grid.flat(), level);
    const rings = coordinates.flat().map((ring) => ring.map((point) => point.map(place)));
    // A label on the contour, away from the other labels and near the diagonal.
    const inside = rings.flat().filter((point) => point.every((v) => v > low + 0.05 * side && v < high - 0.05 * side));
    const room = ([x, y]) => Math.min(0.19 * side, ...labels.map((l) => Math.hypot(l.x - x, l.y - y))) - 0.15 * Math.abs(x + y - low - high);
    const best = d3.greatest(inside, room);
    if (best && room(best) > -0.09 * side) labels.push({ x: best[0], y: best[1], level });
    const style = { stroke: ink(colour(level)), strokeWidth: Math.abs(level) < 1e-9 ? 1.8 : 0.8, clip: true };
    return rings.map((ring) => Plot.line(ring, style));
  });
  const ofLevel = (style) => ({ level }) => style(level);
  return plot(`Layer ${layer}, ${name}: ẑ over z̃ and u`, {
    size: [370, 370],
    margins: [20, 6, 38, 40],
    x: { domain: [low, high], label: "z̃", ticks: 4 },
    y: { domain: [low, high], label: "u", ticks: 4 },
    color: { type: "identity" },
    marks: [
      raster(surface),
      ...lines,
      Plot.text(labels, { x: "x", y: "y", text: ofLevel(short), fill: ofLevel((v) => ink(colour(v))), stroke: ofLevel(colour), strokeWidth: 4 }),
    ],
  });
}

// --- Cross-sections ---------------------------------------------------------------------------------------------

/** ẑ along one variable for five values of the other, each line with its label at its end. */
function sections({ axis, z_hat: grid, name, layer }, alongU) {
  const [width, height, right, top, bottom] = [350, 205, 66, 18, 37];
  const [along, other] = alongU ? ["u", "z̃"] : ["z̃", "u"];
  const y = scaleFor(grid.flat(), false);
  const line = (15 / (height - top - bottom)) * (y.domain[1] - y.domain[0]); // the height of a label, in units of ẑ
  const end = axis.at(-1);
  const leader = end + (8 / (width - 40 - right)) * (end - axis[0]);
  const lines = d3.range(5).map((k) => {
    const at = Math.round((k / 4) * (axis.length - 1));
    const values = axis.map((_, i) => (alongU ? grid[i][at] : grid[at][i]));
    const stroke = viridis(dark() ? 0.36 + 0.16 * k : 0.19 * k);
    return { points: d3.zip(axis, values), stroke, strokeWidth: 1.6 + 0.4 * k, name: `${other} = ${short(axis[at])}`, y: values.at(-1) };
  });
  const byHeight = d3.sort(lines, (each) => each.y);
  byHeight.forEach((each, i) => (each.label = i ? Math.max(each.y, byHeight[i - 1].label + line) : each.y));
  const over = Math.max(0, byHeight.at(-1).label - y.domain[1]);
  byHeight.forEach((each) => (each.label -= over));
  return plot(`Layer ${layer}, ${name}: ẑ along ${along} for five values of ${other}`, {
    size: [width, height],
    margins: [top, right, bottom, 40],
    x: { domain: [axis[0], end], label: along, ticks: 4 },
    y: { ...y, label: "ẑ", ticks: 4 },
    marks: [
      ...lines.map(({ points, stroke, strokeWidth }) => Plot.line(points, { stroke, strokeWidth, className: "section" })),
      Plot.link(lines, { x1: end, y1: "y", x2: leader, y2: "label", className: "leader" }),
      Plot.text(lines, { x: leader, y: "label", text: "name", textAnchor: "start", dx: 2 }),
    ],
  });
}
