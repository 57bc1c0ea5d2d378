// The paper's conclusions, with the test that each holds here, and the cost of the runs.

const SIGNS = { holds: "✓", reversed: "✗", "no clear difference": "≈" };

function startConclusions() {
  const { explanation, summary, labels, rows, cost } = read("conclusions");
  if (!rows.length) return hideSection("conclusions");
  const head = (texts) => make("thead", {}, make("tr", {}, ...texts.map((text) => make("th", { scope: "col" }, text))));
  const body = (found) => make("tbody", {}, ...found.map((cells) => make("tr", {}, ...cells)));
  const name = (text, more) => make("th", { scope: "row" }, text, more ? make("small", {}, more) : null);
  at("conclusions-key").textContent = explanation;
  at("conclusions-summary").append(...summary.map((line) => make("li", {}, line)));
  at("conclusions-table").append(
    head(["conclusion", ...labels.map(labelled)]),
    body(rows.map(({ statement, test, cells }) => [name(statement, test), ...cells.map(conclusionCell)])),
  );
  at("cost").append(head(cost.heads), body(cost.rows.map(([first, ...texts]) => [name(first), ...texts.map((text) => make("td", {}, text))])));
  at("cost").hidden = !cost.rows.length;
}

function conclusionCell(found) {
  if (!found) return make("td", {}, "–");
  const sign = SIGNS[found.holds] ?? "…";
  return make("td", { class: found.holds === "holds" || found.holds === "reversed" ? found.holds : null }, make("b", {}, `${sign} ${found.holds}`), make("small", {}, found.evidence));
}
