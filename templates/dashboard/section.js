// The section of one package: opened from a row, a point or a cell; Escape goes back to where it was opened from.
let openedFrom = null;

function neighbours(row) {
  const at = list.lazy.items.indexOf(row);
  return at < 0 ? [null, null] : [list.lazy.items[at - 1], list.lazy.items[at + 1]];
}

function showSection() {
  const section = $("section");
  const row = byId.get(state.open);
  for (const marked of document.querySelectorAll("[data-id][aria-current]")) marked.removeAttribute("aria-current");
  if (!row) {
    const wasOpen = !section.hidden;
    section.hidden = true;
    section.replaceChildren();
    if (wasOpen) backToRow();
    return;
  }
  for (const mark of document.querySelectorAll("[data-id]"))
    if (mark.dataset.id === row.id) mark.setAttribute("aria-current", "true");
  if (section.hidden) openedFrom = document.activeElement;
  section.replaceChildren(...[sectionHead(row), ...sectionBody(row)].flat(9).filter(Boolean));
  section.hidden = false;
  section.scrollTop = 0;
  $("section-title").focus({ preventScroll: true });
}

function backToRow() {
  const row = [...list.body.rows].find((each) => each.dataset.id === lastOpened);
  if (openedFrom?.isConnected && openedFrom !== document.body && !list.body.contains(openedFrom)) openedFrom.focus();
  else if (row) focusRow(row);
  openedFrom = null;
}

let lastOpened = "";

function sectionHead(row) {
  lastOpened = row.id;
  const [before, after] = neighbours(row);
  const step = (to, name, sign) =>
    h(
      "button",
      {
        type: "button",
        class: "quiet",
        disabled: !to,
        "aria-label": name,
        title: name,
        click: () => go({ open: to.id }),
      },
      sign,
    );
  return h(
    "header",
    {},
    h("h2", { id: "section-title", tabindex: "-1" }, `${row.name} on ${row.device}`),
    h(
      "nav",
      { "aria-label": "Packages" },
      step(before, "Previous package", "↑"),
      step(after, "Next package", "↓"),
      h(
        "button",
        { type: "button", class: "quiet", id: "close", title: "Close (Escape)", click: () => go({ open: "" }) },
        "Close",
      ),
    ),
    h(
      "p",
      {},
      badge(row.verdict),
      row.family && h("span", {}, row.family),
      row.arch && h("span", {}, row.arch),
      row.folder && h("span", { class: "mono" }, row.folder),
      row.kernel && h("span", { class: "mono", title: "SHA-256 of kernel.py" }, `kernel.py ${row.kernel}`),
    ),
  );
}

function sectionBody(row) {
  return [
    h(
      "p",
      { class: "lead" },
      verdicts.get(row.verdict).meaning,
      row.how ? ` How its figures were got: ${row.how}.` : "",
    ),
    row.edited
      ? h(
          "p",
          { class: "alert v-unstable" },
          "kernel.py is not the one that plan.json describes: it was edited, or is missing.",
        )
      : null,
    row.error ? h("p", { class: `alert v-${row.verdict}` }, row.error) : null,
    row.changes.length
      ? [
          h("h3", {}, "Changed since the previous record"),
          h(
            "ul",
            { class: "change-list" },
            row.changes.map((change) => h("li", {}, changeText(change))),
          ),
        ]
      : null,
    caseParts(row),
    row.plan ? planParts(row) : null,
    historyParts(row),
  ];
}
