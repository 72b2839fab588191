// Elements are built here, and texts only ever become text nodes: no string of the data is read as markup.
const SVG = "http://www.w3.org/2000/svg";

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name, value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value != null) element.setAttribute(name, value);
  }
  element.append(...children.flat(Infinity).filter((child) => child != null));
  return element;
}

const h = (tag, attributes = {}, ...children) => fill(document.createElement(tag), attributes, children);
const s = (tag, attributes = {}, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);

// Shapes of the verdicts, so that a verdict is not told by its colour alone.
const ICONS = {
  faster: ["M2 10 6 2l4 8Z", true],
  parity: ["M2 4h8M2 8h8"],
  slower: ["M2 2l4 8 4-8Z", true],
  unstable: ["M1 5c2-3 3-3 5 0s3 3 5 0M1 9c2-3 3-3 5 0s3 3 5 0"],
  simulated: ["M6 1l5 5-5 5-5-5Z"],
  checked: ["M1.5 6.5 4.5 9.5 10.5 2.5"],
  unmeasured: ["M6 1.5a4.5 4.5 0 1 0 0 9 4.5 4.5 0 0 0 0-9Z"],
  refused: ["M6 1.5a4.5 4.5 0 1 0 0 9 4.5 4.5 0 0 0 0-9ZM3 9l6-6"],
  failed: ["M2 2l8 8M10 2l-8 8"],
  error: ["M6 1l5.2 9.5H.8ZM6 4.5v2.5M6 8.8v.1"],
};

function icon(name) {
  const [path, solid] = ICONS[name];
  return s(
    "svg",
    { class: "icon", viewBox: "0 0 12 12", "aria-hidden": "true" },
    s("path", { d: path, class: solid && "solid" }),
  );
}

const badge = (verdict) => h("span", { class: `badge v-${verdict}` }, icon(verdict), verdicts.get(verdict).label);

// A table of plain texts or nodes: columns are [title, is a number], the first cell of a row is its header.
function plainTable(caption, columns, body) {
  const head = columns.map(([title, number]) => h("th", { scope: "col", class: number && "number" }, title));
  const cell = (value, index) =>
    h(index ? "td" : "th", { scope: index ? null : "row", class: columns[index][1] && "number" }, value ?? "–");
  return h(
    "table",
    { class: "plain" },
    caption && h("caption", {}, caption),
    h("thead", {}, h("tr", {}, head)),
    h(
      "tbody",
      {},
      body.map((cells) => h("tr", {}, cells.map(cell))),
    ),
  );
}
