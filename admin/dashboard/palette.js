// Which colour and which pattern stand for what. Nothing is told by colour
// alone: areas of refusals are hatched, each in its own direction.

const looks = {
  admit: {color: '--admit', pattern: 'solid'},
  replay: {color: '--replay', pattern: 'dots'},
  tenant_limit: {color: '--tenant-limit', pattern: 'up'},
  deferred: {color: '--deferred', pattern: 'down'},
  shed: {color: '--shed', pattern: 'cross'},
  origin_full: {color: '--origin-full', pattern: 'up'},
  signal_lost: {color: '--signal-lost', pattern: 'level'},
  store_unavailable: {color: '--signal-lost', pattern: 'down'},
  draining: {color: '--other', pattern: 'level'},
};

const groups = [
  [/^key_/, {color: '--key', pattern: 'down'}],
  [/^origin_/, {color: '--shed', pattern: 'up'}],
  [/^tenant_/, {color: '--tenant-limit', pattern: 'level'}],
];

// look returns the colour and pattern of a verdict or reason.
export function look(name) {
  if (looks[name]) return looks[name];
  const group = groups.find(([re]) => re.test(name));
  return group ? group[1] : {color: '--other', pattern: 'cross'};
}

// For lines that have no meaning of their own.
const lineColors = ['--replay', '--deferred', '--admit', '--origin-full', '--tenant-limit', '--key', '--signal-lost', '--shed'];
export const lineColor = (i) => lineColors[i % lineColors.length];

export const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// fill makes what a canvas fills an area with.
export function fill(ctx, color, pattern) {
  const ratio = devicePixelRatio || 1;
  const size = Math.round(6 * ratio);
  const tile = document.createElement('canvas');
  tile.width = tile.height = size;
  const c = tile.getContext('2d');
  c.fillStyle = color;
  c.strokeStyle = color;
  c.globalAlpha = pattern === 'solid' ? 0.4 : 0.26;
  c.fillRect(0, 0, size, size);
  c.globalAlpha = 0.75;
  c.lineWidth = 1.2 * ratio;
  const line = (x0, y0, x1, y1) => { c.beginPath(); c.moveTo(x0, y0); c.lineTo(x1, y1); c.stroke(); };
  const up = () => { line(-1, size + 1, size + 1, -1); line(-1, 1, 1, -1); line(size - 1, size + 1, size + 1, size - 1); };
  const down = () => { line(-1, -1, size + 1, size + 1); line(size - 1, -1, size + 1, 1); line(-1, size - 1, 1, size + 1); };
  if (pattern === 'up' || pattern === 'cross') up();
  if (pattern === 'down' || pattern === 'cross') down();
  if (pattern === 'level') line(0, size / 2, size, size / 2);
  if (pattern === 'dots') { c.beginPath(); c.arc(size / 2, size / 2, ratio, 0, 7); c.fill(); }
  return ctx.createPattern(tile, 'repeat');
}
