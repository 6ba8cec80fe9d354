// Figures as people read them.

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const tenth = new Intl.NumberFormat("en", { minimumFractionDigits: 1, maximumFractionDigits: 1 });
const compact = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

export const count = (value) => (value >= 1e6 ? compact.format(value) : whole.format(value));
export const rate = (value) => (value === 0 ? "0" : value >= 100 ? count(value) : tenth.format(value));

// "1 worker", "2 workers".
export const many = (value, word) => `${count(value)} ${word}${value === 1 ? "" : "s"}`;

export function ms(value) {
  if (value === null || value === undefined) return "–";
  if (value >= 60000) return `${tenth.format(value / 60000)} min`;
  if (value >= 1000) return `${tenth.format(value / 1000)} s`;
  return value >= 100 ? `${whole.format(value)} ms` : `${tenth.format(value)} ms`;
}

export function bytes(value) {
  const units = ["B", "KiB", "MiB", "GiB"];
  let unit = 0;
  while (value >= 1024 && unit < units.length - 1) { value /= 1024; unit += 1; }
  return `${unit ? tenth.format(value) : whole.format(value)} ${units[unit]}`;
}

export function age(seconds) {
  if (seconds < 120) return `${whole.format(seconds)} s`;
  if (seconds < 7200) return `${whole.format(seconds / 60)} min`;
  if (seconds < 172800) return `${whole.format(seconds / 3600)} h`;
  return `${whole.format(seconds / 86400)} d`;
}

export const ago = (ms) => (ms < 1500 ? "just now" : `${age(ms / 1000)} ago`);
export const clock = (at_ms) => new Date(at_ms).toLocaleTimeString("en-GB");
// An instant in a picture of so many milliseconds: seconds do not matter in a day.
export const short = (at_ms, whole_ms) => (whole_ms > 7200000 ? clock(at_ms).slice(0, 5) : clock(at_ms));
// The value of a setting as people read it, by the unit in its name.
export function setting(name, value) {
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (typeof value !== "number") return value === "" || value === null ? "–" : String(value);
  if (/_bytes(_max)?$/.test(name)) return bytes(value);
  if (name.endsWith("_ms")) return ms(value);
  if (name.endsWith("_s")) return age(value);
  return name.endsWith("_port") ? String(value) : plainNumber(value);
}
const plainNumber = (value) => value.toLocaleString("en");
// To the thousandth: many tasks end within the same second.
export const precise = (at_ms) => `${clock(at_ms)}.${String(Math.floor(at_ms % 1000)).padStart(3, "0")}`;
export const progress = (done) => `${Math.floor(done * 100)} %`;
export const moment = (at_ms) => new Date(at_ms).toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "medium" });
export const digest = (text) => (text ? text.slice(0, 12) : "–");
