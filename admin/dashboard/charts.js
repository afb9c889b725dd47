// Charts over the last five minutes. Each is a figure with its summary in
// words, a legend that reads out the values, and a table behind a toggle.
import uPlot from './vendor/uPlot.esm.js';
import {html, Component, createRef} from './html.js';
import {clock, seconds, secondsBriefly} from './format.js';
import {css, fill} from './palette.js';
import {onTheme} from './theme.js';

const longest = 300; // seconds shown at most, and at least:
const shortest = 60;
const tableStep = 10; // seconds a row

// Steps of an axis of durations: round ones, in the unit that they are written in.
const roundSeconds = [...[1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1].flatMap((unit) => [unit, 2 * unit, 5 * unit]),
  ...[10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400, 28800, 43200, 86400, 172800, 432000]];

// Chart shows layers {name, values, color, pattern}: stacked areas, lowest
// first, or lines.
export class Chart extends Component {
  plot = createRef();
  state = {at: null, table: false};

  componentDidMount() {
    this.offTheme = onTheme(() => this.rebuild());
    this.sizes = new ResizeObserver(() => this.resize());
    this.draw();
  }

  componentDidUpdate() {
    this.draw();
  }

  componentWillUnmount() {
    this.offTheme();
    this.sizes.disconnect();
    this.destroy();
  }

  destroy() {
    this.sizes.disconnect();
    this.u?.destroy();
    this.u = null;
  }

  rebuild() {
    this.destroy();
    this.draw();
  }

  resize() {
    const width = this.plot.current?.clientWidth;
    if (this.u && width && width !== this.u.width) this.u.setSize({width, height: this.height()});
  }

  height() {
    return this.props.height ?? 240;
  }

  // span is the stretch of time shown: what there is, within bounds.
  span() {
    const {times} = this.props;
    const last = times.at(-1) ?? 0;
    return [last - Math.min(longest, Math.max(shortest, last - (times[0] ?? last))), last];
  }

  data() {
    const {times, layers, stacked} = this.props;
    if (!stacked) return [times, ...layers.map((l) => l.values)];
    let below = times.map(() => 0);
    return [times, ...layers.map((l) => (below = below.map((b, i) => b + (l.values[i] ?? 0))))];
  }

  draw() {
    const holder = this.plot.current;
    if (!holder) return this.destroy(); // the table is shown
    const shape = this.props.layers.map((l) => l.name + l.color).join();
    if (this.u && (shape !== this.shape || this.u.root.parentNode !== holder)) this.destroy();
    if (!this.u) {
      this.shape = shape;
      this.u = new uPlot(this.options(holder.clientWidth || 600), this.data(), holder);
      this.sizes.observe(holder);
      return;
    }
    this.u.setData(this.data());
  }

  options(width) {
    const {layers, stacked, format} = this.props;
    const onAxis = format === seconds ? secondsBriefly : format;
    const quiet = css('--muted');
    const grid = {stroke: css('--grid'), width: 1};
    const font = `12px ${css('--font')}`;
    return {
      width,
      height: this.height(),
      padding: [10, 24, 0, 0],
      legend: {show: false},
      cursor: {y: false, drag: {x: false, y: false}, sync: {key: 'sluice'}, points: {show: !stacked, size: 7}},
      scales: {
        x: {time: true, range: () => this.span()},
        y: {range: this.props.most ? [0, this.props.most * 1.04] : (u, min, max) => [0, uPlot.rangeNum(0, Math.max(max || 0, this.props.least ?? 1), 0.08, true)[1]]},
      },
      axes: [
        {stroke: quiet, font, grid, ticks: {show: false}, gap: 6, size: 28, incrs: [10, 15, 30, 60, 120], space: 56, values: (u, ts, i, space, step) => ts.map((t) => clock(new Date(t * 1000)).slice(0, step < 60 ? 8 : 5))},
        {stroke: quiet, font, grid, ticks: {show: false}, gap: 6, size: (u, labels) => 16 + 6.6 * Math.max(4, ...(labels ?? []).map((l) => l.length)), space: 36, incrs: format === seconds ? roundSeconds : undefined, values: (u, vs) => vs.map((v) => onAxis(v))},
      ],
      bands: stacked ? layers.slice(1).map((_, i) => ({series: [i + 2, i + 1]})) : [],
      series: [{}, ...layers.map((l) => {
        const color = css(l.color);
        return {
          label: l.name,
          stroke: color,
          width: stacked ? 1 : 2,
          dash: l.dash,
          points: {show: false},
          fill: stacked ? (u) => fill(u.ctx, color, l.pattern) : undefined,
        };
      })],
      hooks: {setCursor: [(u) => this.point(u.cursor.idx ?? null)]},
    };
  }

  point(at) {
    if (at !== this.state.at) this.setState({at});
  }

  // Arrow keys read the chart value by value.
  key = (e) => {
    const n = this.props.times.length;
    const step = {ArrowLeft: -1, ArrowRight: 1, PageUp: -30, PageDown: 30}[e.key];
    if (e.key === 'Escape') return this.u?.setCursor({left: -10, top: -10});
    if (!step || !this.u || !n) return undefined;
    e.preventDefault();
    const at = Math.max(0, Math.min(n - 1, (this.state.at ?? n - 1) + step));
    this.u.setCursor({left: this.u.valToPos(this.props.times[at], 'x'), top: 10});
    return undefined;
  };

  render({id, title, summary, times, layers, format, note}, {at, table}) {
    const i = at != null && at < times.length ? at : null;
    const when = i == null ? 'now' : clock(new Date(times[i] * 1000));
    return html`
      <figure class="panel chart" aria-labelledby=${`${id}-title`}>
        <div class="head">
          <h2 id=${`${id}-title`}>${title}</h2>
          ${note && html`<span class="note">${note}</span>`}
          <button class="quiet" aria-pressed=${table} onClick=${() => this.setState({table: !table})}>Table</button>
        </div>
        <figcaption class="summary">${summary}</figcaption>
        ${table
          ? html`<${Table} title=${title} times=${times} layers=${layers} format=${format} />`
          : html`<div class="plot" ref=${this.plot} tabindex="0" role="group" aria-label=${`${title}, chart. ${summary} Arrow keys read single seconds.`} onKeyDown=${this.key}></div>`}
        <ul class="legend" aria-label=${`Values ${when}`}>
          <li class="when">${when}</li>
          ${[...layers].reverse().map((l) => html`
            <li key=${l.name}><span class="swatch" data-pattern=${l.pattern ?? 'line'} data-dash=${!l.dash?.length ? null : l.dash[0] < 4 ? 'dotted' : 'dashed'} style=${{'--c': `var(${l.color})`}}></span>${l.label ?? l.name}
              ${' '}<b>${format(i == null ? l.now ?? l.values.at(-1) : l.values[i])}</b></li>`)}
        </ul>
      </figure>`;
  }
}

// Table gives a chart's values as means of ten seconds, newest first.
function Table({title, times, layers, format}) {
  const rows = [];
  for (let end = times.length; end > 0 && rows.length < longest / tableStep; end -= tableStep) {
    const from = Math.max(0, end - tableStep);
    rows.push({
      t: times[from],
      values: layers.map((l) => {
        const seen = l.values.slice(from, end).filter((v) => v != null);
        return seen.length ? seen.reduce((a, b) => a + b, 0) / seen.length : null;
      }),
    });
  }
  return html`
    <div class="scroll tall" tabindex="0" role="region" aria-label=${`${title}, table`}>
      <table>
        <thead><tr><th scope="col">From</th>${layers.map((l) => html`<th scope="col" class="n">${l.label ?? l.name}</th>`)}</tr></thead>
        <tbody>${rows.map((r) => html`<tr key=${r.t}><th scope="row">${clock(new Date(r.t * 1000))}</th>${r.values.map((v) => html`<td class="n">${format(v)}</td>`)}</tr>`)}</tbody>
      </table>
    </div>`;
}

// Spark is a small line without axes, for the eye only: its values stand
// beside it.
export function Spark({values, color = '--admit', width = 120, height = 28, n = 60}) {
  const shown = values.slice(-n).map((v) => v ?? 0);
  const top = Math.max(...shown, 1e-9);
  const x = (i) => (width * (i + n - shown.length)) / (n - 1);
  const y = (v) => height - 1.5 - ((height - 3) * v) / top;
  const line = shown.map((v, i) => `${i ? 'L' : 'M'}${x(i).toFixed(1)} ${y(v).toFixed(1)}`).join('');
  if (shown.length < 2) return html`<svg class="spark" viewBox=${`0 0 ${width} ${height}`} aria-hidden="true"></svg>`;
  return html`
    <svg class="spark" viewBox=${`0 0 ${width} ${height}`} preserveAspectRatio="none" aria-hidden="true" style=${{'--c': `var(${color})`}}>
      <path class="area" d=${`${line}L${width} ${height}L${x(0).toFixed(1)} ${height}Z`} />
      <path class="line" d=${line} />
    </svg>`;
}
