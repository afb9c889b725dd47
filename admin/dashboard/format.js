// Numbers and times as people read them.

const whole = new Intl.NumberFormat('en', {maximumFractionDigits: 0});

// count writes a whole number with separators.
export const count = (n) => whole.format(n ?? 0);

// short writes a number in at most four characters and a unit: 3.2k.
export function short(n) {
  if (n == null) return '–';
  const steps = [[1e9, 'G'], [1e6, 'M'], [1e4, 'k']];
  for (const [size, unit] of steps) {
    if (Math.abs(n) >= size) {
      const scale = unit === 'k' ? 1e3 : size;
      return (n / scale).toFixed(n / scale < 100 ? 1 : 0) + unit;
    }
  }
  if (n > 0 && n < 0.05) return '<0.1';
  if (n !== 0 && Math.abs(n) < 10) return n.toFixed(1).replace(/\.0$/, '');
  return whole.format(n);
}

// seconds writes a duration given in seconds with the unit that suits it.
export function seconds(s) {
  if (s == null) return '–';
  const digits = (x) => (x < 10 ? x.toFixed(1).replace(/\.0$/, '') : x.toFixed(0));
  if (s === 0) return '0 s';
  if (s < 1e-3) return digits(s * 1e6) + ' µs';
  if (s < 1) return digits(s * 1e3) + ' ms';
  if (s < 120) return digits(s) + ' s';
  return span(s);
}

// secondsBriefly writes a duration in one unit, for an axis.
export function secondsBriefly(s) {
  if (s < 120) return seconds(s);
  const [size, unit] = s < 7200 ? [60, 'min'] : s < 172800 ? [3600, 'h'] : [86400, 'd'];
  return `${(s / size).toFixed(1).replace(/\.0$/, '')} ${unit}`;
}

// span writes a long duration in its two largest units: 3 h 12 min.
export function span(s) {
  const units = [[86400, 'd'], [3600, 'h'], [60, 'min'], [1, 's']];
  const i = units.findIndex(([size]) => s >= size);
  if (i < 0) return '0 s';
  const [size, unit] = units[i];
  const rest = units[i + 1] && Math.floor((s % size) / units[i + 1][0]);
  return `${Math.floor(s / size)} ${unit}` + (rest ? ` ${rest} ${units[i + 1][1]}` : '');
}

export function percent(share) {
  if (share == null || Number.isNaN(share)) return '–';
  const p = share * 100;
  if (p > 0 && p < 0.1) return '<0.1%';
  if (p < 100 && p > 99.9) return '>99.9%';
  return (p < 10 ? p.toFixed(1).replace(/\.0$/, '') : p.toFixed(0)) + '%';
}

const pad = (n, width = 2) => String(n).padStart(width, '0');

// clock writes the time of day of a date in local time.
export const clock = (d, millis = false) =>
  `${pad(d.getHours())}:${pad(d.getMinutes())}:${pad(d.getSeconds())}` + (millis ? `.${pad(d.getMilliseconds(), 3)}` : '');

// moment writes date and time of day.
export const moment = (d) => `${d.getFullYear()}-${pad(d.getMonth() + 1)}-${pad(d.getDate())} ${clock(d)}`;

// ago says how long ago a time given as ISO text was.
export function ago(iso, now) {
  if (!iso) return 'never';
  const s = Math.max(0, (now - new Date(iso)) / 1000);
  return s < 1.5 ? 'just now' : `${span(Math.round(s))} ago`;
}

// words turns a name of the wire contract into words: tenant_limit, tenant limit.
export const words = (name) => name.replaceAll('_', ' ');
