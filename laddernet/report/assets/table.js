// The table of test errors as a heat map.

const details = { paper: hasPaper, welch: false };

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
  const ramp = make("span", { class: "ramp", "aria-hidden": "true" });
  ramp.style.background = `linear-gradient(to right, ${d3.ticks(0, 1, 4).map(heatColour).join(", ")})`;
  at("heat-legend").append("lowest of the column ", ramp, " highest, on a log scale");
  at("table-notes").append(...tableNotes().map((note) => make("li", {}, note)));
}

function tableNotes() {
  const notes = ["★ Lowest error of the complete cells of its column, also in bold. (7/10): 7 of 10 runs are finished."];
  if (hasPaper)
    notes.push(
      "Paper: Table 1 of Pezeshki et al. (2016), and our average − the paper’s: ≈ within, ≠ outside two standard errors of the difference.",
    );
  if (hasWelch)
    notes.push(
      `Welch tests: the average − ${study.reference}’s with the same number of labels, and the p-value after Benjamini and Hochberg’s correction over all tests of the table.`,
    );
  const ranks = study.spearman.map(
    ({ labels, rho, p, n }) => `${labelled(labels)}: ${rho === null ? "–" : `ρ = ${fixed(rho)} (${chance(p)}, ${n} models)`}`,
  );
  if (ranks.length) notes.push(`Spearman rank correlation with the paper’s order: ${ranks.join("; ")}.`);
  return [...study.remarks, ...notes];
}

function showTable() {
  const rows = shown.map((model) => {
    const mark = model.untuned ? ", untuned" : null;
    const name = make("th", { scope: "row", title: model.description }, make("b", {}, model.id), mark, make("small", {}, model.group));
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
    box.style.backgroundColor = columnColours[column](cell.aer);
    box.style.color = ink(columnColours[column](cell.aer));
  }
  box.append(make(cell.best ? "strong" : "span", { class: "value" }, cell.best ? "★ " : "", fixed(cell.aer)));
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
