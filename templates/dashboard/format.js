// Numbers and dates as texts. A figure that is not known is a dash, never a zero.
const NONE = "–";
const number = (value, digits = 3) =>
  value == null
    ? NONE
    : value.toLocaleString("en-US", {
        maximumSignificantDigits: Math.max(digits, Math.ceil(Math.log10(Math.abs(value) + 1))),
      });
const count = (value) => (value == null ? NONE : value.toLocaleString("en-US"));
const percent = (share) => (share == null ? NONE : `${(100 * share).toFixed(share < 0.1 ? 1 : 0)} %`);
const plural = (amount, noun) => `${count(amount)} ${noun}${amount === 1 ? "" : "s"}`;
const day = (at) => (at ? at.slice(0, 10) : NONE);
const minute = (at) => (at ? `${at.slice(0, 10)} ${at.slice(11, 16)} UTC` : NONE);
const words = (name) => name.replaceAll("_", " ");

function micros(us) {
  if (us == null) return NONE;
  return us >= 1000 ? `${number(us / 1000, 4)} ms` : `${number(us, us >= 100 ? 4 : 3)} µs`;
}

function scaled(value, unit) {
  if (value == null) return NONE;
  const [size, prefix] = [
    [1e12, "T"],
    [1e9, "G"],
    [1e6, "M"],
    [1e3, "k"],
  ].find(([least]) => value >= least) ?? [1, ""];
  return `${number(value / size)} ${prefix}${unit}`;
}

const times = (speed) => `${speed.toFixed(speed < 10 ? 3 : 1)}×`;
const bounds = ([, low, high], digits = 3) => `[${low.toFixed(digits)}, ${high.toFixed(digits)}]`;
const perSecond = (amount, us) => (amount == null || us == null ? null : amount / (us * 1e-6));
