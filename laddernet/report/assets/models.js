// The study, its models and their line styles, and the filter of models.

const study = read("study");
study.models.forEach((model, place) => {
  model.place = place;
  model.runs = study.labels.map(() => []); // by number of labels
});
const byId = new Map(study.models.map((model) => [model.id, model]));
study.runs.forEach((run, place) => {
  run.place = place;
  byId.get(run.model)?.runs[study.labels.indexOf(run.labels)]?.push(run);
});
const hasPaper = study.models.some((model) => model.cells.some((cell) => cell.paper_aer !== null));

// Okabe and Ito's colours, each in three line styles: enough for 21 models.
const LINES = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8a8a8a"];
const DASHES = [null, "7 3", "2 2.5"];
const lineOf = (model) => ({
  stroke: LINES[model.place % LINES.length],
  strokeDasharray: DASHES[Math.floor(model.place / LINES.length) % DASHES.length],
});

function swatch(model) {
  const { stroke, strokeDasharray } = lineOf(model);
  const svg = d3.create("svg").attr("width", 28).attr("height", 12).attr("class", "swatch").attr("aria-hidden", "true");
  const line = svg.append("line").attr("x1", 1).attr("x2", 27).attr("y1", 6).attr("y2", 6).attr("stroke-width", 3);
  line.attr("stroke", stroke).attr("stroke-dasharray", strokeDasharray);
  return svg.node();
}

let shown = study.models; // filtered, in the table's order

function startFilter(changed) {
  const groups = [...new Set(study.models.map((model) => model.group))];
  at("filter-group").append(...groups.map((group) => make("option", { value: group }, group)));
  at("filter").addEventListener("submit", (event) => event.preventDefault());
  at("filter-text").addEventListener("input", changed);
  at("filter-group").addEventListener("change", changed);
}

/** The models that pass the filter. */
function filtered() {
  const text = at("filter-text").value.trim().toLowerCase();
  const group = at("filter-group").value;
  const passes = (model) =>
    (!group || model.group === group) && `${model.id} ${model.group} ${model.description}`.toLowerCase().includes(text);
  return study.models.filter(passes);
}

function showTop() {
  at("title").textContent = study.title;
  at("command").textContent = study.command;
  const cells = study.models.flatMap((model) => model.cells);
  const [done, wanted, failed] = ["n", "wanted", "failed"].map((key) => d3.sum(cells, (cell) => cell[key]));
  at("facts").textContent = [`Data: ${study.data}`, count(study.models.length, "model"), `made ${study.created}`].join(" · ");
  const tile = (term, value, detail) =>
    make("div", {}, make("dt", {}, term), make("dd", {}, make("strong", {}, value), make("span", {}, detail)));
  const tiles = [tile("Runs finished", `${done} of ${wanted}`, failed ? `${failed} failed` : "none failed")];
  study.labels.forEach((labels, column) => {
    const best = study.models.filter((model) => model.cells[column].best);
    const value = best.length ? `${best[0].cells[column].text} %` : "–";
    tiles.push(tile(`Lowest with ${labelled(labels)}`, value, best.map((model) => model.id).join(", ") || "no cell is complete"));
  });
  at("tiles").append(...tiles);
  at("findings").append(...study.findings.map((finding) => make("li", {}, finding)));
}
