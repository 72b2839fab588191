// The matrix: a row a package, a column a device, a verdict in each cell.
const matrix = {};

function startMatrix() {
  matrix.devices = data.devices.map((device) => device.name);
  const head = ["Package", ...matrix.devices].map((title) => h("th", { scope: "col" }, title));
  matrix.body = h("tbody");
  matrix.lazy = new LazyBody(matrix.body, matrixRow);
  const caption = "Packages by device: the verdict, and the speed against the incumbent where it was measured.";
  const table = h(
    "table",
    { class: "matrix" },
    h("caption", { class: "hidden" }, caption),
    h("thead", {}, h("tr", {}, head)),
    matrix.body,
  );
  $("matrix").append(h("div", { class: "list-frame" }, table), matrix.lazy.end);
}

function showMatrix(found) {
  const names = new Map();
  for (const row of found) {
    if (!names.has(row.name)) names.set(row.name, []);
    names.get(row.name).push(row);
  }
  matrix.lazy.set([...names]);
}

function matrixRow([name, of]) {
  const cells = matrix.devices.map((device) => {
    const here = of.filter((row) => row.device === device);
    return h("td", {}, here.length ? here.map(matrixCell) : h("span", { class: "none" }, NONE));
  });
  return h("tr", {}, h("th", { scope: "row", title: name }, name), cells);
}

function matrixCell(row) {
  return h(
    "a",
    {
      href: hashOf({ open: row.id }),
      class: `v-${row.verdict}`,
      "data-id": row.id,
      "aria-current": row.id === state.open && "true",
      click: (event) => {
        event.preventDefault();
        go({ open: row.id });
      },
    },
    icon(row.verdict),
    verdicts.get(row.verdict).label,
    row.speed && h("small", {}, times(row.speed[0])),
  );
}
