// The list: a row a package on a device, sorted by its heads, walked with the arrow keys. Roles are said again, since
// narrow screens lay the table out as cards, and browsers then forget what it was.
const COLUMNS = [
  ["name", "Package"],
  ["device", "Device"],
  ["family", "Family"],
  ["verdict", "Verdict"],
  ["speed", "Speed vs incumbent", "number"],
  ["time", "Time", "number"],
  ["share", "Of roofline", "number"],
  ["at", "How got"],
];
const list = {};

function startList() {
  const head = COLUMNS.map(([key, title, kind]) =>
    h(
      "th",
      { role: "columnheader", scope: "col", class: kind, "data-sort": key },
      h(
        "button",
        { type: "button", click: () => go({ sort: state.sort === key ? `-${key}` : key }) },
        title,
        s(
          "svg",
          { class: "icon", viewBox: "0 0 10 10", "aria-hidden": "true" },
          s("path", { d: "M1 7l4-5 4 5Z", class: "solid" }),
        ),
      ),
    ),
  );
  const columns = COLUMNS.map(([key]) => h("col", { class: `c-${key}` }));
  const caption =
    "Packages. Speed: the incumbent's time over kgen's, above 1 kgen is faster, with its 95 % interval. " +
    "Times in italics are predicted. Arrow keys walk the rows, Enter opens one, Escape closes it.";
  list.body = h("tbody", { role: "rowgroup", keydown: walk, click: openRow });
  list.table = h(
    "table",
    { role: "table", class: "packages" },
    h("caption", { class: "hidden" }, caption),
    h("colgroup", {}, columns),
    h("thead", { role: "rowgroup" }, h("tr", { role: "row" }, head)),
    list.body,
  );
  list.lazy = new LazyBody(list.body, listRow);
  $("list").append(h("div", { class: "list-frame" }, list.table), list.lazy.end);
}

function showList(found) {
  const key = state.sort.replace(/^-/, "");
  for (const head of list.table.tHead.rows[0].cells) {
    const sorted = head.dataset.sort === key;
    head.toggleAttribute("aria-sort", sorted);
    if (sorted) head.setAttribute("aria-sort", state.sort.startsWith("-") ? "descending" : "ascending");
    head
      .querySelector("path")
      .setAttribute("d", state.sort === `-${key}` && sorted ? "M1 3l4 5 4-5Z" : "M1 7l4-5 4 5Z");
  }
  list.table.setAttribute("aria-rowcount", found.length + 1);
  list.lazy.set(found);
}

function listRow(row, index) {
  const link = h("a", { href: hashOf({ open: row.id }), tabindex: index ? -1 : 0, title: row.name }, row.name);
  const cell = (key, kind, ...children) => h("td", { role: "cell", class: `d-${key} ${kind}` }, children);
  return h(
    "tr",
    { role: "row", "data-id": row.id, "aria-rowindex": index + 2, "aria-current": row.id === state.open && "true" },
    h("th", { role: "rowheader", scope: "row" }, link),
    cell("device", "", row.device),
    cell("family", "quietly", row.family || NONE),
    cell("verdict", "", badge(row.verdict)),
    cell("speed", "number", speedCell(row)),
    cell("time", "number", timeCell(row)),
    cell("share", `number ${row.measured ? "" : "predicted"}`, shareCell(row)),
    cell("at", "quietly", basisCell(row)),
  );
}

function timeCell(row) {
  if (row.us == null) return NONE;
  return row.measured
    ? micros(row.us)
    : h("span", { class: "predicted" }, micros(row.us), h("span", { class: "hidden" }, " predicted"));
}

function basisCell(row) {
  const change = row.changes.length;
  const tone = row.changes.some((each) => each[3] === "worse")
    ? "worse"
    : row.changes.some((each) => each[3] === "better")
      ? "better"
      : "neutral";
  const said = change
    ? h(
        "span",
        { class: tone, title: plural(change, "change") },
        ` Δ${change}`,
        h("span", { class: "hidden" }, " changes"),
      )
    : null;
  return [row.measured ? `measured ${day(row.at)}` : row.us == null ? NONE : "predicted", said];
}

// A prediction above the roofline says that the cost model or the counted work is wrong: it is shown as such.
function shareCell(row) {
  return row.share > 1
    ? h(
        "span",
        { class: "worse", title: "above the roofline: the cost model or the counted work is wrong" },
        `${percent(row.share)} above`,
      )
    : percent(row.share);
}

function speedCell(row) {
  if (!row.speed) return h("span", { class: "quietly" }, NONE);
  return h(
    "span",
    { class: `speed v-${row.verdict}` },
    speedBar(row.speed),
    h("span", {}, times(row.speed[0]), " ", h("small", {}, bounds(row.speed, 2))),
  );
}

// The interval on a log axis from half to twice the incumbent's speed; the dashed line is its speed.
function speedBar([median, low, high]) {
  const x = (speed) => (37 + 36 * Math.max(-1, Math.min(1, Math.log2(speed)))).toFixed(1);
  return s(
    "svg",
    { class: "bar", viewBox: "0 0 74 16", "aria-hidden": "true" },
    s("line", { class: "axis", x1: 0, x2: 74, y1: 8, y2: 8 }),
    s("line", { class: "one", x1: 37, x2: 37, y1: 0, y2: 16 }),
    s("line", { class: "span", x1: x(low), x2: x(high), y1: 8, y2: 8 }),
    s("circle", { class: "dot", cx: x(median), cy: 8, r: 3.5 }),
  );
}

function openRow(event) {
  const row = event.target.closest("tr");
  if (!row || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  if (event.detail && String(getSelection())) return; // a text was selected with the pointer, not a row
  go({ open: row.dataset.id });
}

const STEPS = { ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10, Home: -Infinity, End: Infinity };

function walk(event) {
  const row = event.target.closest("tr");
  if (!row || !(event.key in STEPS) || event.ctrlKey || event.metaKey || event.altKey) return;
  event.preventDefault();
  const here = row.sectionRowIndex;
  const there = Math.max(0, Math.min(list.lazy.items.length - 1, here + STEPS[event.key]));
  list.lazy.more(there + 1);
  focusRow(list.body.rows[there]);
}

function focusRow(row) {
  list.body.querySelector('a[tabindex="0"]')?.setAttribute("tabindex", -1);
  const link = row.querySelector("a");
  link.setAttribute("tabindex", 0);
  link.focus({ preventScroll: true });
  row.scrollIntoView({ block: "nearest" });
}
