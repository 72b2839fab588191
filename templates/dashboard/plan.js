// The plan of a package and why it is this one: choices, predicted terms, rules, runners-up.
function planParts(row) {
  const plan = row.plan;
  return [
    h("h3", {}, "Plan"),
    plan.cut.length
      ? h(
          "ul",
          {},
          plan.cut.map((reason) => h("li", {}, reason)),
        )
      : null,
    plan.fixed.length ? plainTable("Axes that the spec decides", [["Axis"], ["Because"]], plan.fixed) : null,
    plan.variants.map((variant, index) => variantPart(variant, plan, index)),
    h("details", {}, h("summary", {}, "Computation"), h("pre", {}, plan.computation.join("\n"))),
  ];
}

function variantPart(variant, plan, index) {
  const guard = variant.guard.length ? `where ${variant.guard.join("; ")}` : "for any operands";
  const parts = [
    facts(variant),
    h(
      "h4",
      {},
      "Predicted time ",
      h(
        "span",
        { class: "muted" },
        `${micros(variant.us)}, bound by ${words(variant.bound)}. Its terms overlap and do not add up`,
      ),
    ),
    termBars(variant),
    whyParts(variant),
    evidencePart(plan.evidence[variant.name]),
  ];
  const title = [`${variant.kernel}, case ${variant.case} `, h("span", { class: "muted" }, guard)];
  return index ? h("details", {}, h("summary", {}, title), parts) : [h("h4", {}, title), parts];
}

const factList = (entries) =>
  h(
    "dl",
    { class: "facts" },
    entries.map(([name, value]) => h("div", {}, h("dt", {}, words(name)), h("dd", {}, value))),
  );

const shownValue = (value) =>
  typeof value === "number" ? (Number.isInteger(value) ? count(value) : number(value, 4)) : String(value);

function facts(variant) {
  const raster = variant.raster
    ? [
        [
          "raster order",
          Object.entries(variant.raster)
            .map(([name, value]) => `${name} ${value}`)
            .join(", "),
        ],
      ]
    : [];
  const grid = Object.entries(variant.grid).map(([name, value]) => [
    name,
    name.endsWith("efficiency") ? percent(value) : shownValue(value),
  ]);
  const derived = Object.entries(variant.derived).map(([name, value]) => [name, shownValue(value)]);
  return [
    factList([
      ...Object.entries(variant.choices).map(([name, value]) => [name, shownValue(value)]),
      ...grid,
      ...raster,
    ]),
    h("details", {}, h("summary", {}, "What follows from these choices"), factList(derived)),
  ];
}

// The terms of the cost model, each as a bar of the largest. They overlap in time: they do not add up.
function termBars(variant) {
  const terms = Object.entries(variant.terms).filter(([, us]) => us > 0);
  const most = Math.max(...terms.map(([, us]) => us), 1e-9);
  return h(
    "div",
    { class: "terms", role: "list", "aria-label": "Terms of the cost model, in microseconds" },
    terms.map(([name, us]) => {
      const bound = name === variant.bound ? "bound" : "";
      const bar = s(
        "svg",
        { viewBox: "0 0 100 8", preserveAspectRatio: "none", "aria-hidden": "true" },
        s("rect", { class: "track", width: 100, height: 8 }),
        s("rect", { class: `fill ${bound}`, width: ((100 * us) / most).toFixed(1), height: 8 }),
      );
      return [
        h("span", { role: "listitem", class: bound }, words(name), h("span", { class: "hidden" }, ` ${micros(us)}`)),
        bar,
        h("span", { class: `number ${bound}`, "aria-hidden": "true" }, micros(us)),
      ];
    }),
  );
}

function whyParts(variant) {
  const removed = variant.removed.map(([index, amount]) => {
    const [rule, because, place] = data.rules[index];
    return [rule, because, count(amount), h("span", { class: "mono muted" }, place)];
  });
  const runners = variant.runners.map((runner) => [
    micros(runner.us),
    `${runner.us >= variant.us ? "+" : "−"}${(100 * Math.abs(runner.us / variant.us - 1)).toFixed(1)} %`,
    Object.entries(runner.differs)
      .map(([axis, value]) => `${words(axis)} ${value}`)
      .join(", ") || "the same axes",
    termWords(runner, variant),
  ]);
  return [
    h("h4", {}, "Why this choice"),
    h(
      "p",
      {},
      `${count(variant.points)} points; the rules leave ${count(variant.legal)} legal ones, and the cost model ranks this one first of those the plan may use.`,
    ),
    runners.length
      ? plainTable("Who came next", [["Predicted", true], ["", true], ["Differs in"], ["Terms that move"]], runners)
      : null,
    removed.length
      ? h(
          "details",
          {},
          h("summary", {}, `What ${plural(removed.length, "rule")} removed, and why`),
          plainTable(
            "A point counts at the first rule that it breaks",
            [["Rule"], ["Because"], ["Removed", true], ["Where"]],
            removed,
          ),
        )
      : null,
  ];
}

function termWords(runner, variant) {
  const moved = Object.entries(runner.terms).map(([name, us]) => [name, us, us - (variant.terms[name] ?? 0)]);
  moved.sort((a, b) => Math.abs(b[2]) - Math.abs(a[2]));
  return (
    moved
      .slice(0, 3)
      .map(([name, us, by]) => `${words(name)} ${number(us)} (${by > 0 ? "+" : "−"}${number(Math.abs(by), 2)})`)
      .join(", ") || "none"
  );
}

function evidencePart(expected) {
  if (!expected) return null;
  return h(
    "details",
    {},
    h("summary", {}, "What its machine code must show"),
    factList(
      Object.entries(expected).map(([name, value]) => [
        name,
        value === true ? "required" : value === false ? "absent" : shownValue(value),
      ]),
    ),
  );
}
