// The error of each seed, beside the mean and the paper's.

let spreadLog = true;

function startSpread() {
  if (isForest) return hideSection("spread");
  at("spread-controls").append(
    scaleChoice((log) => {
      spreadLog = log;
      showSpread();
    }),
  );
  at("spread-key").textContent =
    `○ a seed, ┃ the mean, shaded one standard error to each side${hasPaper ? ", ▽ the paper’s mean" : ""}. Models and order are those of the table.`;
}

function showSpread() {
  if (isForest) return;
  const width = clamp(Math.floor(at("spread-panels").clientWidth / study.labels.length) - 16, 320, 640);
  at("spread-panels").replaceChildren(...study.labels.map((labels, column) => spreadPanel(labels, column, width)));
}

function spreadPanel(labels, column, width) {
  const [row, names, bottom] = [22, 124, 38]; // heights and widths in pixels
  const models = shown.map((model, place) => {
    const errors = model.runs[column].map((run) => run.error).filter((error) => error !== null);
    return { ...model.cells[column], id: model.id, place, errors };
  });
  // Seeds are offset up or down in turn, so that equal errors do not hide each other.
  const seeds = models.flatMap(({ errors, place }) => errors.map((error, k) => ({ error, place: place + (((2 * k) % 5) - 2) / row })));
  const finished = models.filter(({ aer }) => aer !== null);
  const spreads = finished.filter(({ se }) => se !== null);
  const papers = models.filter(({ paper_aer }) => paper_aer !== null);
  const ends = spreads.flatMap(({ aer, se }) => [aer - se, aer + se]);
  const x = scaleFor([...seeds.map(({ error }) => error), ...finished.map(({ aer }) => aer), ...ends, ...papers.map((d) => d.paper_aer)], spreadLog, width / 70);
  const about = ({ id, aer, text, errors }) => `${id}: ${aer === null ? "no run is finished" : `${text} %, ${count(errors.length, "seed")}`}`;
  const across = (half) => ({ y1: (d) => d.place - half, y2: (d) => d.place + half });
  const svg = plot(`Error of each seed, with ${labelled(labels)}: the numbers are in the table above.`, {
    size: [width, row * Math.max(models.length, 1) + bottom + 10],
    margins: [10, 14, bottom, names],
    x: { ...x, inset: 6, label: "test error, %" },
    y: { domain: [models.length - 0.5, -0.5], grid: false },
    marks: [
      Plot.rectY(models, { ...across(0.5), insetLeft: -names, insetRight: -14, className: "band", title: about }),
      Plot.gridX({ ticks: x.ticks }),
      Plot.axisY(d3.range(models.length), { tickFormat: (place) => shortened(models[place].id, 18), tickSize: 0, label: null }),
      Plot.rect(spreads, { x1: (d) => d.aer - d.se, x2: (d) => d.aer + d.se, ...across(0.32), className: "se", pointerEvents: "none" }),
      Plot.dot(seeds, { x: "error", y: "place", r: 3.2, className: "seed", pointerEvents: "none" }),
      Plot.ruleX(finished, { x: "aer", ...across(0.41), className: "mean", pointerEvents: "none" }),
      Plot.dot(papers, { x: "paper_aer", y: "place", dy: -7, r: 4, symbol: "triangle", rotate: 180, className: "paper", pointerEvents: "none" }),
    ],
  });
  return make("figure", {}, make("figcaption", {}, labelled(labels)), svg);
}
