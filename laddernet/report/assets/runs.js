// The runs, each with its configuration and environment.

const MARKS = { done: "✓", failed: "✗", running: "▸", waiting: "…" };
const runs = sorter(
  [
    { text: "model", key: (run) => run.model },
    { text: "labels", key: (run) => run.labels },
    { text: "seed", key: (run) => run.seed },
    { text: "status", key: (run) => run.status },
    { text: "test error, %", key: (run) => run.error },
    { text: "seconds", key: (run) => run.seconds },
    { text: "fingerprint", key: (run) => run.fingerprint },
    { text: "" },
  ],
  () => showRuns(),
);
let runsShown = 100; // at first: the layout of hundreds of rows is slow

function startRuns() {
  at("runs-table").append(make("thead", {}, make("tr", {}, ...runs.heads)), make("tbody"));
  const [configs, environments] = [study.configs, study.environments].map((each) => each.map((value) => JSON.stringify(value).toLowerCase()));
  study.runs.forEach((run) => {
    const own = `${run.model} ${run.labels} labels seed ${run.seed} ${run.status} ${run.message ?? ""} ${run.fingerprint}`.toLowerCase();
    run.passes = (words) => words.every((word) => [own, configs[run.config], environments[run.environment]].some((text) => text.includes(word)));
  });
  at("runs-text").addEventListener("input", showRuns);
  at("runs-more").addEventListener("click", showAllRuns);
  showRuns();
}

function showRuns() {
  const words = at("runs-text").value.toLowerCase().split(/\s+/).filter(Boolean);
  const found = runs.sort(study.runs.filter((run) => run.passes(words)));
  const all = study.runs.length;
  at("runs-count").textContent = found.length === all ? count(all, "run") : `${found.length} of ${count(all, "run")}`;
  at("runs-more").hidden = found.length <= runsShown;
  at("runs-more").textContent = `show all ${count(found.length, "run")}`;
  const rows = found.slice(0, runsShown).flatMap((run) => [(run.row ??= runRow(run)), ...(run.details ? [run.details] : [])]);
  at("runs-table").tBodies[0].replaceChildren(...rows);
}

function showAllRuns() {
  runsShown = Infinity;
  showRuns();
}

function runRow(run) {
  const button = make("button", { type: "button", "aria-expanded": "false", onclick: toggle }, "details");
  const cell = (content, kind) => make("td", { class: kind }, content);
  const row = make(
    "tr", {},
    make("th", { scope: "row" }, run.model), cell(grouped(run.labels), "number"), cell(String(run.seed), "number"),
    cell(`${MARKS[run.status] ?? ""} ${run.status}`, `status ${MARKS[run.status] ? run.status : ""}`),
    cell(fixed(run.error, 2), "number"), cell(fixed(run.seconds, 1), "number"),
    make("td", {}, make("code", { title: run.fingerprint }, run.fingerprint.slice(0, 8))), make("td", {}, button),
  );
  function toggle() {
    if (run.details) {
      run.details.remove();
      run.details = null;
    } else {
      run.details = make("tr", { class: "details" }, make("td", { colspan: 8 }, runDetails(run)));
      row.after(run.details);
    }
    button.setAttribute("aria-expanded", String(Boolean(run.details)));
  }
  return row;
}

function runDetails(run) {
  const list = (title, values) => make("div", {}, make("h4", {}, title), pairs(values));
  return make(
    "div", { class: "run" },
    run.message ? make("p", { class: "notice" }, run.message) : null,
    make("p", {}, "fingerprint ", make("code", {}, run.fingerprint)),
    make(
      "div", { class: "pairs" },
      list("Configuration", { model: run.model, seed: run.seed, ...study.configs[run.config] }),
      list("Environment", study.environments[run.environment]),
    ),
  );
}

function pairs(values) {
  const isObject = (value) => value !== null && typeof value === "object";
  const valueOf = (value) =>
    Array.isArray(value)
      ? value.map((each) => (isObject(each) ? JSON.stringify(each) : String(each))).join(", ")
      : isObject(value) ? pairs(value) : String(value);
  const rows = Object.entries(values).flatMap(([key, value]) => [make("dt", {}, key), make("dd", {}, valueOf(value))]);
  return rows.length ? make("dl", {}, ...rows) : make("p", {}, "none recorded");
}
