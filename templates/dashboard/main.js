// Starts the page, and shows the state again whenever it changes.
function update(changes) {
  const names = Object.keys(changes);
  if (names.some((name) => name !== "open")) {
    const found = matching();
    showFilters();
    $("list").hidden = state.view !== "list" || !found.length;
    $("matrix").hidden = state.view !== "matrix" || !found.length;
    $("empty").hidden = Boolean(found.length);
    showList(found);
    if (state.view === "matrix") showMatrix(found);
    showCharts(found);
    $("count").textContent =
      found.length === rows.length
        ? plural(rows.length, "package")
        : `${count(found.length)} of ${plural(rows.length, "package")}`;
  }
  if (names.includes("open")) showSection();
}

function onKey(event) {
  if (event.key === "Escape" && state.open) go({ open: "" });
  else if (event.key === "/" && !event.target.closest("input, select, textarea")) {
    event.preventDefault();
    $("q").focus();
    $("q").select();
  }
}

function start() {
  const measured = rows.filter((row) => row.measured).length;
  $("summary").textContent =
    `${plural(rows.length, "package")} on ${plural(data.devices.length, "device")} from ${data.roots.join(", ")}; ` +
    `${measured} measured; ${plural(data.records, "record")}${data.as_of ? `, the latest of ${minute(data.as_of)}` : ""}.`;
  startTheme();
  readHash();
  startFilters();
  startList();
  startMatrix();
  startCharts();
  startChanges();
  update(state);
  $("skip").addEventListener("click", (event) => {
    event.preventDefault();
    $("packages-title").scrollIntoView();
    $("packages-title").focus();
  });
  document.addEventListener("keydown", onKey);
  addEventListener("popstate", () => {
    readHash();
    update(state);
  });
  addEventListener("beforeprint", () => {
    list.lazy.all();
    matrix.lazy.all();
  });
}

start();
