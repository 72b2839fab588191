// Rooflines: one chart a device, log-log. A point is a case: measured ones filled, predicted ones hollow.
const WIDTH = 340,
  HEIGHT = 236,
  LEFT = 40,
  RIGHT = 8,
  TOP = 22,
  BOTTOM = 32;
const points = []; // {row, element, ...}, all charts
let drawnFigures = null;

function pointsOf(device) {
  const found = [];
  for (const row of rows) {
    if (row.device !== device) continue;
    for (const each of row.cases) {
      const us = each.us ?? each.predicted;
      if (!us || !each.flops || !each.bytes) continue;
      found.push({
        row,
        case: each,
        x: each.flops / each.bytes,
        y: perSecond(each.flops, us) / 1e12,
        measured: each.us != null,
        share: each.roofline ? each.roofline / us : null,
      });
    }
  }
  return found.sort((a, b) => a.measured - b.measured); // measured ones are drawn over predicted ones
}

function startCharts() {
  for (const device of data.devices) {
    const mine = pointsOf(device.name);
    if (mine.length) $("charts").append(chart(device, mine));
  }
  const mark = (kind) =>
    s(
      "svg",
      { viewBox: "0 0 12 12", "aria-hidden": "true" },
      s("circle", { class: `point is-${kind}`, cx: 6, cy: 6, r: 4 }),
    );
  $("legend").append(
    h("span", {}, mark("measured"), "measured"),
    h("span", {}, mark("predicted"), "predicted by the cost model, no measurement"),
    h("span", {}, "a point is a case; the line is what the device's peaks allow"),
  );
  $("figures").addEventListener("toggle", showFigures);
  $("figures").hidden = !points.length;
}

function chart(device, mine) {
  const id = `chart-${device.name.replace(/[^\w-]/g, "_")}-${points.length}`;
  const bandwidth = device.bandwidth ? device.bandwidth.per_second / 1e12 : null;
  const peaks = device.peaks.map((peak) => ({ ...peak, y: peak.per_second / 1e12 }));
  const ridges = bandwidth ? peaks.map((peak) => peak.y / bandwidth) : [];
  const x = logScale(widened([...mine.map((p) => p.x), ...ridges]), [LEFT, WIDTH - RIGHT]);
  const y = logScale(widened([...mine.map((p) => p.y), ...peaks.map((peak) => peak.y)]), [HEIGHT - BOTTOM, TOP]);
  const measured = mine.filter((p) => p.measured).length;
  const title = `Roofline of ${device.title}`;
  const told =
    `${plural(mine.length, "case")}: ${measured} measured, ${mine.length - measured} predicted. Work per byte from ` +
    `${number(Math.min(...mine.map((p) => p.x)))} to ${number(Math.max(...mine.map((p) => p.x)))} FLOP, ` +
    `${roofWords(device)}. The figures are in the table below the charts.`;
  // The title is of a group without marks: browsers show that of the picture as a tooltip over every point.
  const picture = s(
    "svg",
    {
      viewBox: `0 0 ${WIDTH} ${HEIGHT}`,
      role: "img",
      "aria-labelledby": `${id}-title`,
      "aria-describedby": `${id}-desc`,
    },
    s("g", {}, s("title", { id: `${id}-title` }, title)),
    s("desc", { id: `${id}-desc` }, told),
    axes(x, y),
    roofs(x, y, bandwidth, device, peaks),
    mine.map((p) => dot(p, x, y)),
  );
  picture.addEventListener("pointermove", (event) => hover(event, picture, mine));
  picture.addEventListener("pointerleave", () => hover(null));
  picture.addEventListener("click", (event) => {
    hover(event, picture, mine);
    if (hovered) go({ open: hovered.row.id });
  });
  points.push(...mine);
  return h(
    "figure",
    { class: "chart", "data-device": device.name },
    h(
      "figcaption",
      {},
      h("b", {}, device.title),
      h("span", {}, device.bandwidth ? `${measured}/${mine.length} measured` : "no device file: no roof"),
    ),
    picture,
  );
}

const roofWords = (device) =>
  device.bandwidth
    ? `memory bandwidth ${scaled(device.bandwidth.per_second, "B/s")} [${device.bandwidth.source}], ` +
      device.peaks
        .map((peak) => `dense peak ${peak.dtypes.join(", ")} ${scaled(peak.per_second, "FLOP/s")} [${peak.source}]`)
        .join(", ")
    : "the device's peaks are not known";

function axes(x, y) {
  const label = (attributes, text) => s("text", attributes, text);
  return s(
    "g",
    { "aria-hidden": "true" },
    x.ticks.map((at) => [
      s("line", { class: "grid", x1: x(at), x2: x(at), y1: TOP, y2: HEIGHT - BOTTOM }),
      label({ x: x(at), y: HEIGHT - BOTTOM + 13, "text-anchor": "middle" }, tick(at)),
    ]),
    y.ticks.map((at) => [
      s("line", { class: "grid", x1: LEFT, x2: WIDTH - RIGHT, y1: y(at), y2: y(at) }),
      label({ x: LEFT - 6, y: y(at) + 3.5, "text-anchor": "end" }, tick(at)),
    ]),
    s("path", { class: "axis", fill: "none", d: `M${LEFT} ${TOP}V${HEIGHT - BOTTOM}H${WIDTH - RIGHT}` }),
    label({ x: WIDTH - RIGHT, y: HEIGHT - 5, "text-anchor": "end" }, "FLOP per byte"),
    label({ x: 4, y: 11 }, "TFLOP/s"),
  );
}

function roofs(x, y, bandwidth, device, peaks) {
  if (!bandwidth || !peaks.length) return null;
  const [low, high] = x.domain;
  const top = Math.max(...peaks.map((peak) => peak.y));
  const from = Math.max(low, y.domain[0] / bandwidth);
  const doubtful = (peak) => `roof ${peak.confidence === "low" ? "doubtful" : ""}`;
  const slope = s("line", {
    class: doubtful(device.bandwidth),
    x1: x(from),
    y1: y(from * bandwidth),
    x2: x(top / bandwidth),
    y2: y(top),
  });
  return s(
    "g",
    { "aria-hidden": "true" },
    slope,
    peaks.map((peak) => [
      s("line", { class: doubtful(peak), x1: x(peak.y / bandwidth), x2: x(high), y1: y(peak.y), y2: y(peak.y) }),
      peakLabel(x(peak.y / bandwidth), y(peak.y), `${peak.dtypes.join(", ")} ${number(peak.y)}`),
    ]),
    alongSlope([x(from), y(from * bandwidth)], [x(top / bandwidth), y(top)], `${number(bandwidth)} TB/s`),
  );
}

// Left of the slope nothing can be: peaks are named there, where there is room for it.
function peakLabel(ridge, y, text) {
  const fits = ridge - LEFT > 5.6 * text.length + 10;
  return s(
    "text",
    { class: "roof-label", x: fits ? ridge - 7 : WIDTH - RIGHT, y: y + (fits ? 3.5 : -4), "text-anchor": "end" },
    text,
  );
}

// The name of the bandwidth stands on its line, or below a short one.
function alongSlope([x1, y1], [x2, y2], text) {
  if (Math.hypot(x2 - x1, y2 - y1) < 90) return s("text", { class: "roof-label", x: x1 + 6, y: y1 + 18 }, text);
  const [cx, cy] = [x1 + 0.3 * (x2 - x1), y1 + 0.3 * (y2 - y1)];
  const angle = (Math.atan2(y2 - y1, x2 - x1) * 180) / Math.PI;
  return s(
    "text",
    {
      class: "roof-label",
      "text-anchor": "middle",
      transform: `translate(${cx.toFixed(1)} ${cy.toFixed(1)}) rotate(${angle.toFixed(1)}) translate(0 -5)`,
    },
    text,
  );
}

function dot(point, x, y) {
  point.at = [x(point.x), y(point.y)];
  point.element = s("circle", {
    class: `point is-${point.measured ? "measured" : "predicted"}`,
    cx: point.at[0].toFixed(1),
    cy: point.at[1].toFixed(1),
    r: point.measured ? 4.2 : 3.4,
  });
  return point.element;
}

let hovered = null;

// The nearest point within reach of the pointer, so that small marks need no aim.
function hover(event, picture, mine) {
  hovered?.element.classList.remove("at");
  hovered = null;
  if (event) {
    const box = picture.getBoundingClientRect();
    const [px, py] = [
      ((event.clientX - box.left) / box.width) * WIDTH,
      ((event.clientY - box.top) / box.height) * HEIGHT,
    ];
    let reach = 14 ** 2;
    for (const point of mine) {
      const far = (point.at[0] - px) ** 2 + (point.at[1] - py) ** 2;
      if (far <= reach && !point.off) [reach, hovered] = [far, point];
    }
    picture.style.cursor = hovered ? "pointer" : "";
  }
  const tip = $("tip");
  tip.hidden = !hovered;
  if (!hovered) return;
  hovered.element.classList.add("at");
  tip.replaceChildren(h("b", {}, hovered.row.name), h("span", {}, pointWords(hovered)));
  const left = Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8);
  tip.style.left = `${left}px`;
  tip.style.top = `${Math.max(8, event.clientY - tip.offsetHeight - 10)}px`;
}

function pointWords(point) {
  const share = point.share ? `, ${percent(point.share)} of the roofline` : "";
  const us = micros(point.case.us ?? point.case.predicted);
  return `${point.measured ? `measured ${day(point.case.at)}` : "predicted"}: ${us}, ${number(point.y)} TFLOP/s${share}; case ${point.case.id}`;
}

// Charts follow when the typing rests, so that a keystroke waits for the list alone.
let chartsDue = 0;

function showCharts(found) {
  clearTimeout(chartsDue);
  chartsDue = setTimeout(markPoints, 150, new Set(found));
}

function markPoints(shown) {
  for (const point of points) {
    const off = !shown.has(point.row);
    if (point.off !== off) point.element.classList.toggle("off", (point.off = off));
  }
  showFigures();
}

// The same figures for those who do not see the charts; made when it is opened.
function showFigures() {
  if (!$("figures").open) return drawnFigures && ($("figures-table").replaceChildren(), (drawnFigures = null));
  const body = points
    .filter((p) => !p.off)
    .map((p) => [
      p.row.name,
      p.row.device,
      p.case.id,
      number(p.x),
      number(p.y),
      percent(p.share),
      p.measured ? `measured ${day(p.case.at)}` : "predicted",
    ]);
  drawnFigures = plainTable(
    "The cases that match the filters",
    [["Package"], ["Device"], ["Case"], ["FLOP per byte", true], ["TFLOP/s", true], ["Of roofline", true], ["How"]],
    body,
  );
  $("figures-table").replaceChildren(drawnFigures);
}
