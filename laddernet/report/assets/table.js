// The table of test errors: a heat map, or with one number of labels a forest plot (forest.js).

const isForest = study.labels.length === 1;
const TESTS = [["", "none"], ["best", "the best"], [study.reference, study.reference]].filter(
  ([other]) => !other || study.models.some(({ cells }) => cells.some(({ tests }) => tests[other])),
);
const details = { paper: hasPaper, tests: isForest ? TESTS.at(-1)[0] : "", log: true };

// A colour for each error of a column, from its lowest to its highest on a log scale.
const heatColour = (place) => viridis(1 - 0.93 * place);
const columnColours = study.labels.map((_, column) => {
  const known = study.models.map((model) => model.cells[column].aer).filter((aer) => aer > 0);
  const [low, high] = d3.extent(known);
  return (aer) => heatColour(aer > 0 && high > low ? Math.log(aer / low) / Math.log(high / low) : 0);
});

const heat = sorter(
  [
    { text: "model", key: (model) => model.id },
    ...(isForest
      ? forestColumns()
      : study.labels.map((labels, column) => ({ text: labelled(labels), key: (model) => model.cells[column].aer }))),
  ],
  () => showModels(),
);

function startTable() {
  const changed = (key) => (value) => {
    details[key] = value;
    showTable();
  };
  at("table-controls").append(
    ...(isForest ? [scaleChoice(changed("log"))] : []),
    ...(hasPaper ? [tick("the paper’s values", details.paper, changed("paper"))] : []),
    ...(TESTS.length > 1 ? [choice("paired tests against", TESTS, details.tests, changed("tests"))] : []),
  );
  at("table-notes").append(...study.notes.map((note) => make("li", {}, note)));
  at("heat").append(make("thead", {}, make("tr", {}, ...heat.heads)), make("tbody"));
  at("heat").classList.add(isForest ? "forest" : "cells");
  if (isForest) return startForest();
  const ramp = make("span", { class: "ramp", "aria-hidden": "true" });
  ramp.style.background = `linear-gradient(to right, ${d3.ticks(0, 1, 4).map(heatColour).join(", ")})`;
  at("heat-legend").append("lowest of the column ", ramp, " highest, on a log scale; ● and bold: see below");
}

function showTable() {
  const cells = isForest ? forestCells() : (model) => model.cells.map(tableCell);
  const rows = shown.map((model) => {
    const mark = model.untuned ? ", untuned" : null;
    const name = make("th", { scope: "row", title: `${model.id}: ${model.description}` }, make("b", {}, model.id), mark, make("small", {}, model.group));
    return make("tr", { "data-model": model.id }, name, ...cells(model));
  });
  const none = make("tr", {}, make("td", { colspan: heat.heads.length, class: "empty" }, "No model passes the filter."));
  at("heat").tBodies[0].replaceChildren(...(rows.length ? rows : [none]));
}

const otherName = () => (details.tests === "best" ? "the best" : details.tests);

/** A cell's mean and standard error, in bold if it is among the best. */
const valueOf = (cell) => make(cell.leading ? "strong" : "span", { class: "value" }, cell.leading ? "● " : "", cell.text);

function tableCell(cell, column) {
  const box = make("td");
  if (cell.aer === null) {
    box.className = "empty";
  } else {
    box.style.backgroundColor = columnColours[column](cell.aer);
    box.style.color = ink(columnColours[column](cell.aer));
  }
  box.append(valueOf(cell));
  if (cell.counts) box.append(make("span", { class: "remark" }, ` ${cell.counts}`));
  if (details.paper && cell.paper) box.append(make("small", {}, `paper ${cell.paper}${cell.to_paper ? `, ${cell.to_paper}` : ""}`));
  const test = cell.tests[details.tests];
  if (test) box.append(make("small", {}, `${test.parts[0]} (${test.parts[1]}) to ${otherName()}`));
  return box;
}
