// Search, selects and verdict chips: each writes the state, and shows it.
function options(select, all, values) {
  select.append(h("option", { value: "" }, all), ...values.map((value) => h("option", { value }, value)));
}

const distinct = (key) => [...new Set(rows.map(key))].filter(Boolean).sort();

function toggleVerdict(id) {
  const chosen = new Set(state.verdict.split(",").filter(Boolean));
  if (!chosen.delete(id)) chosen.add(id);
  go({ verdict: [...verdicts.keys()].filter((each) => chosen.has(each)).join(",") });
}

function resetFilters() {
  go({ q: "", device: "", family: "", verdict: "", changed: "" });
  $("q").focus();
}

function startFilters() {
  for (const { id, label, meaning } of [...verdicts.values()].reverse()) {
    const amount = rows.filter((row) => row.verdict === id).length;
    if (!amount) continue;
    const chip = h(
      "button",
      {
        type: "button",
        class: `chip v-${id}`,
        "aria-pressed": "false",
        title: meaning,
        "data-verdict": id,
        click: () => toggleVerdict(id),
      },
      icon(id),
      h("b", {}, count(amount)),
      label,
    );
    $("verdicts").append(chip);
  }
  options(
    $("device"),
    "all",
    distinct((row) => row.device),
  );
  options(
    $("family"),
    "all",
    distinct((row) => row.family),
  );
  $("q").addEventListener("input", () => go({ q: $("q").value }));
  for (const name of ["device", "family"]) $(name).addEventListener("change", () => go({ [name]: $(name).value }));
  $("changed").addEventListener("change", () => go({ changed: $("changed").checked ? "1" : "" }));
  $("changed").disabled = !rows.some((row) => row.changes.length);
  for (const radio of document.getElementsByName("view"))
    radio.addEventListener("change", () => go({ view: radio.value }));
  $("filters").addEventListener("submit", (event) => event.preventDefault());
  $("filters").addEventListener("reset", (event) => {
    event.preventDefault();
    resetFilters();
  });
  $("empty-reset").addEventListener("click", resetFilters);
}

function showFilters() {
  if ($("q").value !== state.q) $("q").value = state.q;
  for (const name of ["device", "family"]) $(name).value = state[name];
  $("changed").checked = Boolean(state.changed);
  for (const radio of document.getElementsByName("view")) radio.checked = radio.value === state.view;
  const chosen = state.verdict.split(",");
  for (const chip of $("verdicts").children) chip.setAttribute("aria-pressed", chosen.includes(chip.dataset.verdict));
}
