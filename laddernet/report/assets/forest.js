// The forest plot of a study with one number of labels: a row of the table has a strip of the chart.

const FOREST = { height: 44, side: 10 }; // in pixels: of a strip, and its margins on the left and right

function forestColumns() {
  const cell = (model) => model.cells[0];
  return [
    { text: "test error, %" },
    { text: "mean ± SE", key: (model) => cell(model).aer },
    { text: "seeds", key: (model) => cell(model).n },
    { text: "paper", key: (model) => cell(model).paper_aer },
    { text: "against", key: (model) => cell(model).tests[details.tests]?.difference ?? null },
  ];
}

function startForest() {
  at("table-key").textContent =
    `■ the mean of the seeds with a bar of one standard error to each side, hollow if it is not in bold; • a seed${hasPaper ? "; ▽ the paper’s mean and standard error" : ""}; dashed: the lowest mean. A column head sorts: ascending, descending, original order.`;
}

/** The cells of a row, after the head of the chart's column is drawn anew. */
function forestCells() {
  const width = clamp(Math.floor(0.31 * at("heat").parentElement.clientWidth), 220, 420);
  const cells = shown.map(({ cells }) => cells[0]);
  const seeds = shown.flatMap(({ runs }) => runs[0].map(({ error }) => error));
  const ends = (mean, se) => [mean - (se ?? 0), mean + (se ?? 0)];
  const ours = cells.filter(({ aer }) => aer !== null).flatMap(({ aer, se }) => ends(aer, se));
  const papers = details.paper ? cells.filter(({ paper_aer }) => paper_aer !== null).flatMap((c) => ends(c.paper_aer, c.paper_se)) : [];
  const x = scaleFor([...seeds, ...ours, ...papers].filter((value) => value !== null), details.log, width / 60);
  const lowest = study.models.find(({ cells }) => cells[0].best)?.cells[0].aer ?? null;
  showForestHead(x, width);
  return (model) => {
    const cell = model.cells[0];
    const test = cell.tests[details.tests];
    return [
      make("td", { class: "strip" }, strip(model, x, width, lowest)),
      make("td", {}, valueOf(cell)),
      make("td", {}, cell.counts.replace(/[()]/g, "")),
      make("td", { hidden: !details.paper }, cell.paper ?? "", cell.to_paper ? make("small", {}, `ours ${cell.to_paper}`) : ""),
      make("td", { hidden: !details.tests }, ...(test ? [test.parts[0], make("small", {}, test.parts[1])] : [])),
    ];
  };
}

/** The axis above the strips, and the heads of the columns that are asked for. */
function showForestHead(x, width) {
  const [, chart, , , paper, difference] = heat.heads;
  const axis = plot("Scale of the test error", {
    size: [width, 24],
    margins: [2, FOREST.side, 20, FOREST.side],
    x: { ...x, inset: 6 },
    y: { domain: [0, 1], axis: null, grid: false },
    marks: [Plot.axisX({ ticks: x.ticks, tickFormat: short, tickSize: 0, label: null })],
  });
  chart.replaceChildren(make("span", {}, "test error, %"), axis);
  paper.hidden = !details.paper;
  difference.hidden = !details.tests;
  difference.firstElementChild.firstChild.textContent = `against ${otherName()}`;
}

/** A row's part of the chart: ours, and below it the paper's. */
function strip(model, x, width, lowest) {
  const cell = model.cells[0];
  const y = { ours: details.paper ? 0.36 : 0.5, paper: 0.78 };
  // Seeds are offset up or down in turn, so that equal errors do not hide each other.
  const errors = model.runs[0].map(({ error }) => error).filter((error) => error !== null);
  const seeds = errors.map((error, k) => ({ error, y: y.ours + [0, -0.12, 0.12, -0.06, 0.06][k % 5] }));
  const ours = cell.aer === null ? [] : [{ mean: cell.aer, se: cell.se, y: y.ours }];
  const paper = details.paper && cell.paper_aer !== null ? [{ mean: cell.paper_aer, se: cell.paper_se, y: y.paper }] : [];
  const whisker = (data, className) =>
    Plot.ruleY(data.filter(({ se }) => se !== null), {
      x1: ({ mean, se }) => Math.max(mean - se, x.domain[0]), // a log scale has no place for 0
      x2: ({ mean, se }) => mean + se,
      y: "y",
      className,
    });
  const shape = { x: "mean", y: "y" };
  return plot(`${model.id}: ${cell.aer === null ? "no run is finished" : `${cell.text} %, ${count(seeds.length, "seed")}`}`, {
    size: [width, FOREST.height],
    margins: [0, FOREST.side, 0, FOREST.side],
    x: { ...x, inset: 6, axis: null },
    y: { domain: [1, 0], axis: null, grid: false },
    marks: [
      Plot.gridX({ ticks: x.ticks }),
      lowest === null ? null : Plot.ruleX([lowest], { className: "lowest" }),
      whisker(ours, "whisker"),
      Plot.dot(ours, { ...shape, r: 4.5, symbol: "square", className: cell.leading ? "leading" : "other" }),
      Plot.dot(seeds, { x: "error", y: "y", r: 2.2, className: "one" }),
      whisker(paper, "paper-whisker"),
      Plot.dot(paper, { ...shape, r: 3.5, symbol: "triangle", rotate: 180, className: "paper" }),
    ],
  });
}
