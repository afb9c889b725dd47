// Whatever a part of the gateway reports is shown, also where this page has
// never heard of it.
import {html} from './html.js';
import {Chart} from './charts.js';
import {Panel, Scroll} from './panels.js';
import {percent, seconds, short, words} from './format.js';
import {lineColor} from './palette.js';

const isThing = (v) => v !== null && typeof v === 'object' && !Array.isArray(v);
const title = (name) => words(name).replace(/^./, (c) => c.toUpperCase());

// Other shows a section that has no view of its own: as a table where it is a
// list or a map of things, with a chart for each kind of reading that has a
// history.
export function Other({name, value, store}) {
  const rows = Array.isArray(value) ? value.filter(isThing).map((v, i) => [v.name ?? i + 1, v])
    : Object.values(value).every(isThing) ? Object.entries(value) : null;
  return html`
    <${Panel} id=${`section-${name}`} title=${title(name)}>
      ${rows ? html`<${Things} label=${title(name)} rows=${rows} />` : html`<dl class="facts">${Object.entries(value).map(([k, v]) => html`<dt>${words(k)}</dt><dd>${cell(k, v)}</dd>`)}</dl>`}
    <//>
    ${readings(store.names(`${name}/`)).map(([kind, of]) => html`
      <${Chart} key=${kind} id=${`section-${name}-${kind}`} title=${`${title(name)}: ${words(kind.replace(/_seconds$/, ''))}`} times=${store.times} height=${200} format=${format(kind)}
        layers=${of.map((thing, i) => ({name: thing || kind, values: store.values(`${name}/${thing ? `${thing}/` : ''}${kind}`), color: lineColor(i), dash: [[], [6, 4], [2, 3]][i % 3]}))}
        summary=${`Now ${of.map((thing) => `${thing} ${format(kind)(store.values(`${name}/${thing ? `${thing}/` : ''}${kind}`).at(-1))}`).join(', ')}.`} />`)}`;
}

// readings groups series names like orders/wait by their last word.
function readings(names) {
  const kinds = new Map();
  for (const n of names) {
    const cut = n.lastIndexOf('/');
    const kind = n.slice(cut + 1);
    kinds.set(kind, [...(kinds.get(kind) ?? []), n.slice(0, Math.max(0, cut))]);
  }
  return [...kinds];
}

function format(kind) {
  if (/_seconds$|wait|age/.test(kind)) return seconds;
  if (/share|probability|ratio/.test(kind)) return percent;
  return short;
}

function Things({label, rows}) {
  const columns = [...new Set(rows.flatMap(([, v]) => Object.keys(v)))].filter((c) => c !== 'name');
  return html`<${Scroll} label=${label} kind="things"><table>
    <thead><tr><th scope="col"></th>${columns.map((c) => html`<th scope="col" class=${rows.every(([, v]) => typeof v[c] === 'number') ? 'n' : ''}>${words(c.replace(/_seconds$/, ''))}</th>`)}</tr></thead>
    <tbody>${rows.map(([name, v]) => html`<tr key=${name}><th scope="row" class="name">${name}</th>${columns.map((c) => html`<td class=${typeof v[c] === 'number' ? 'n' : ''}>${cell(c, v[c])}</td>`)}</tr>`)}</tbody>
  </table><//>`;
}

function cell(name, v) {
  if (v == null) return html`<span class="muted">–</span>`;
  if (typeof v === 'number') return format(name)(v);
  if (typeof v === 'boolean') return v ? 'yes' : 'no';
  if (Array.isArray(v)) return v.map((x) => (isThing(x) ? JSON.stringify(x) : String(x))).join(', ');
  if (isThing(v)) return html`<span class="reasons">${Object.entries(v).map(([k, x]) => html`<span>${words(k)} <b>${cell(k, x)}</b></span>`)}</span>`;
  return String(v);
}
