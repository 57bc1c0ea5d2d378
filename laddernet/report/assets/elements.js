// Elements, numbers as text, and controls. All files of a page share one scope (page.py).
// Text of a user is only ever set as textContent or as an attribute's value, never parsed as markup.

const read = (name) => JSON.parse(document.getElementById(`data-${name}`).textContent);
const at = (id) => document.getElementById(id);

function make(kind, attributes = {}, ...children) {
  const element = document.createElement(kind);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false)
      element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

// --- Numbers as text --------------------------------------------------------------------------------------------

const minus = (text) => text.replace("-", "−");
const fixed = (number, digits) => (number === null ? "–" : minus(number.toFixed(digits)));
const short = (number) => minus(String(+number.toPrecision(3)));
const count = (n, word) => `${n} ${word}${n === 1 ? "" : "s"}`;
const clamp = (x, low, high) => Math.min(high, Math.max(low, x));
const grouped = (number) => number.toLocaleString("en-GB");
const labelled = (labels) => `${grouped(labels)} labels`;
const shortened = (text, length) => (text.length > length ? `${text.slice(0, length - 1)}…` : text);

// --- Controls ---------------------------------------------------------------------------------------------------

let names = 0;

/** A row of radio buttons; options are pairs of a value and a text. */
function choice(legend, options, chosen, change) {
  const name = `choice-${names++}`;
  const buttons = options.map(([value, text]) => {
    const input = make("input", { type: "radio", name, value, onchange: () => change(value) });
    input.checked = value === chosen;
    return make("label", {}, input, make("span", {}, text));
  });
  return make("fieldset", { class: "choice" }, make("legend", {}, legend), ...buttons);
}

/** Radio buttons for a logarithmic or a linear scale. */
const scaleChoice = (change) =>
  choice("scale", [["log", "log"], ["linear", "linear"]], "log", (value) => change(value === "log"));

function tick(text, checked, change) {
  const input = make("input", { type: "checkbox", onchange: () => change(input.checked) });
  input.checked = checked;
  return make("label", { class: "tick" }, input, text);
}

function select(text, options, chosen, change) {
  const list = make("select", { onchange: () => change(list.value) });
  list.append(...options.map(([value, shown]) => make("option", { value }, shown)));
  list.value = chosen;
  return make("label", {}, `${text} `, list);
}

/** Column heads that sort: ascending, then descending, then the original order. */
function sorter(columns, changed) {
  const order = { column: null, down: false };
  const heads = columns.map(({ text, key }, place) => {
    if (!key) return make("th", { scope: "col" }, text);
    const arrow = make("span", { class: "arrow", "aria-hidden": "true" });
    const button = make("button", { type: "button", onclick: () => press(place) }, text, arrow);
    return make("th", { scope: "col", "aria-sort": "none" }, button);
  });
  function press(place) {
    if (order.column !== place) Object.assign(order, { column: place, down: false });
    else if (!order.down) order.down = true;
    else order.column = null;
    heads.forEach((head, i) => {
      if (columns[i].key)
        head.setAttribute("aria-sort", i !== order.column ? "none" : order.down ? "descending" : "ascending");
    });
    changed();
  }
  /** Sort rows; those without a value come last in either direction. */
  function sort(rows) {
    if (order.column === null) return rows;
    const { key } = columns[order.column];
    const compare = order.down ? d3.descending : d3.ascending;
    const known = rows.filter((row) => key(row) !== null);
    return [...known.sort((a, b) => compare(key(a), key(b))), ...rows.filter((row) => key(row) === null)];
  }
  return { heads, sort };
}
