// What the latest records say differently from those before them, worst first.
const MOST_CHANGED = 6;

const changeText = ([what, before, after, direction]) =>
  h(
    "span",
    { class: `change ${direction}` },
    direction === "better" ? "▲ " : direction === "worse" ? "▼ " : "",
    `${what}: ${before} → ${after}`,
  );

function startChanges() {
  const changed = rows.filter((row) => row.changes.length);
  if (!changed.length) return;
  const worst = (row) =>
    row.changes.some((change) => change[3] === "worse")
      ? 0
      : row.changes.some((change) => change[3] === "better")
        ? 1
        : 2;
  changed.sort((a, b) => worst(a) - worst(b) || a.index - b.index);
  const line = (row) =>
    h(
      "li",
      {},
      h(
        "a",
        {
          href: hashOf({ open: row.id }),
          click: (event) => {
            event.preventDefault();
            go({ open: row.id });
          },
        },
        `${row.name} on ${row.device}`,
      ),
      row.changes.slice(0, 3).map(changeText),
      row.changes.length > 3 ? h("span", { class: "muted" }, `and ${row.changes.length - 3} more`) : null,
    );
  const more = changed.length - MOST_CHANGED;
  $("changes-list").append(
    h("ul", { class: "change-list" }, changed.slice(0, MOST_CHANGED).map(line)),
    ...(more > 0
      ? [
          h(
            "p",
            {},
            h(
              "button",
              {
                type: "button",
                class: "link",
                click: () => {
                  go({ changed: "1" });
                  $("packages-title").scrollIntoView();
                },
              },
              `Show all ${changed.length} in the list`,
            ),
          ),
        ]
      : []),
  );
  $("changes").hidden = false;
}
