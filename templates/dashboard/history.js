// The figures of a package case by case, and every record of it with where and with what it was made.
function caseParts(row) {
  if (!row.cases.length) return [];
  const how = [];
  const body = row.cases.map((each) => {
    const us = each.us ?? each.predicted;
    how.push(
      h(
        "li",
        {},
        h("b", {}, each.id),
        ": ",
        each.us != null
          ? `measured ${minute(each.at)} on ${each.gpu ?? row.device}: ${each.how}`
          : each.error
            ? `no speed: ${each.error}`
            : "predicted by the cost model",
      ),
    );
    return [
      each.id,
      timeWords(each),
      micros(each.incumbent),
      each.speed
        ? h("span", {}, times(each.speed[0]), h("br"), h("span", { class: "muted" }, bounds(each.speed)))
        : null,
      scaled(perSecond(each.flops, us), "FLOP/s"),
      scaled(perSecond(each.bytes, us), "B/s"),
      each.roofline && us ? percent(each.roofline / us) : null,
    ];
  });
  return [
    h("h3", {}, "Figures"),
    h(
      "div",
      { class: "scroll", tabindex: "0", role: "region", "aria-label": "Figures of each case" },
      plainTable(
        "Rates are of the least work, at the measured time or, in italics, at the predicted one",
        [
          ["Case"],
          ["Time", true],
          ["Incumbent", true],
          ["Speed", true],
          ["Compute", true],
          ["Memory", true],
          ["Roofline", true],
        ],
        body,
      ),
    ),
    h("ul", { class: "basis" }, how),
  ];
}

function timeWords(each) {
  if (each.us == null) return h("span", { class: "predicted" }, micros(each.predicted));
  return each.predicted
    ? h("span", {}, micros(each.us), h("br"), h("span", { class: "predicted" }, `${micros(each.predicted)} predicted`))
    : micros(each.us);
}

const WORK = ["flops", "bytes"]; // of the case: its figures show what follows from them

function figureWords([name, value]) {
  if (name.endsWith("_us")) return `${words(name.slice(0, -3))} ${micros(value)}`;
  if (name.endsWith("_bytes")) return `${words(name.slice(0, -6))} ${count(value)} bytes`;
  if (name.endsWith("_gbps")) return `${words(name.slice(0, -5))} ${scaled(value * 1e9, "B/s")}`;
  return `${words(name)} ${number(value, 4)}`;
}

function historyParts(row) {
  if (!row.records.length)
    return [h("h3", {}, "Records"), h("p", { class: "muted" }, "None: nothing but the plan is known of this package.")];
  const body = row.records.map((record) => {
    const { gpu, host, kgen, versions } = data.environments[record.env];
    const made = [gpu, host, `kgen ${kgen}`, ...Object.entries(versions).map(([name, version]) => `${name} ${version}`)]
      .filter(Boolean)
      .join(", ");
    const figures = Object.entries(record.figures)
      .filter(([name]) => !WORK.includes(name))
      .map(figureWords)
      .join(", ");
    return [
      h(
        "span",
        {},
        h("span", { class: "nowrap" }, day(record.at)),
        " ",
        h("span", { class: "nowrap" }, minute(record.at).slice(11)),
      ),
      `${record.kind}${record.case ? ` ${record.case}` : ""}`,
      record.status,
      h("span", { class: "mono" }, record.kernel || NONE, record.current ? " (this)" : ""),
      h(
        "span",
        {},
        record.how,
        record.error ? h("div", { class: "worse" }, record.error) : null,
        figures ? h("div", { class: "muted" }, figures) : null,
        h("div", { class: "muted" }, made),
      ),
    ];
  });
  return [
    h("h3", {}, "Records"),
    h(
      "div",
      { class: "scroll", tabindex: "0", role: "region", "aria-label": "Records" },
      plainTable(
        row.older ? `The newest ${row.records.length}; ${plural(row.older, "older one")} in the database` : null,
        [["At"], ["Kind"], ["Status"], ["kernel.py"], ["How, figures, with what"]],
        body,
      ),
    ),
  ];
}
