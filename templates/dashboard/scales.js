// Log axes: powers of ten as ticks, with 2 and 5 between them where there are few.
function logScale([low, high], [from, to]) {
  const [a, b] = [Math.log10(low), Math.log10(high)];
  const place = (value) => from + ((Math.log10(value) - a) / (b - a)) * (to - from);
  place.domain = [low, high];
  const decades = Array.from({ length: Math.ceil(b) - Math.floor(a) + 1 }, (_, i) => 10 ** (Math.floor(a) + i));
  const steps = b - a > 2.2 ? [1] : [1, 2, 5];
  place.ticks = decades.flatMap((decade) => steps.map((step) => step * decade)).filter((at) => at >= low && at <= high);
  return place;
}

function widened(values, least = 10) {
  let [low, high] = [Math.min(...values), Math.max(...values)];
  if (high / low < least) [low, high] = [low / Math.sqrt(least), high * Math.sqrt(least)];
  return [low / 1.6, high * 1.6];
}

const tick = (value) => (value >= 1 ? count(value) : String(Number(value.toPrecision(1))));
