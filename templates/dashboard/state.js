// What is shown, kept in the hash of the address: a link, a reload and the back button give the same view.
const DEFAULTS = { q: "", device: "", family: "", verdict: "", changed: "", view: "list", sort: "name", open: "" };
const state = { ...DEFAULTS };

const SORTS = {
  name: (row) => row.name,
  device: (row) => row.device,
  family: (row) => row.family,
  verdict: (row) => verdicts.get(row.verdict).rank,
  speed: (row) => row.speed?.[0],
  time: (row) => row.us,
  share: (row) => row.share,
  at: (row) => row.at,
};

function readHash() {
  const given = new URLSearchParams(location.hash.slice(1));
  for (const name of Object.keys(DEFAULTS)) state[name] = given.get(name) ?? DEFAULTS[name];
  if (!(state.sort.replace(/^-/, "") in SORTS)) state.sort = DEFAULTS.sort;
  if (!["list", "matrix"].includes(state.view)) state.view = DEFAULTS.view;
  state.verdict = state.verdict
    .split(",")
    .filter((id) => verdicts.has(id))
    .join(",");
  if (!byId.has(state.open)) state.open = "";
}

function hashOf(changes) {
  const wanted = { ...state, ...changes };
  const kept = Object.keys(DEFAULTS)
    .filter((name) => wanted[name] !== DEFAULTS[name])
    .map((name) => [name, wanted[name]]);
  return `#${new URLSearchParams(kept).toString().replaceAll("%2F", "/").replaceAll("%2C", ",")}`;
}

// Opening a package is a step that the back button undoes; filters and order are not.
function go(changes) {
  const step = "open" in changes && changes.open !== state.open;
  const hash = hashOf(changes);
  Object.assign(state, changes);
  history[step ? "pushState" : "replaceState"](null, "", hash);
  update(changes);
}

function matching() {
  const wanted = state.q.toLowerCase().split(/\s+/).filter(Boolean);
  const accepted = state.verdict ? new Set(state.verdict.split(",")) : null;
  const found = rows.filter(
    (row) =>
      (!state.device || row.device === state.device) &&
      (!state.family || row.family === state.family) &&
      (!accepted || accepted.has(row.verdict)) &&
      (!state.changed || row.changes.length) &&
      wanted.every((word) => row.text.includes(word)),
  );
  const down = state.sort.startsWith("-");
  const key = SORTS[state.sort.replace(/^-/, "")];
  const order = (a, b) => {
    const [x, y] = [key(a), key(b)];
    if (x == null || y == null) return (x == null) - (y == null) || a.index - b.index;
    const less = typeof x === "string" ? (x < y ? -1 : x > y ? 1 : 0) : x - y;
    return (down ? -less : less) || a.index - b.index;
  };
  return found.sort(order);
}
