// Who and what: classes, tenants, routes, the parts of the gateway.
import {html, Component} from './html.js';
import {Spark} from './charts.js';
import {ago, count, moment, percent, short, words} from './format.js';

export function Panel({id, title, note, side, children, kind = ''}) {
  return html`
    <section class=${`panel ${kind}`} aria-labelledby=${`${id}-title`}>
      <div class="head"><h2 id=${`${id}-title`}>${title}</h2>${note && html`<span class="note">${note}</span>`}${side}</div>
      ${children}
    </section>`;
}

// Scroll lets a wide table scroll by itself, by keyboard too.
export function Scroll({label, children, kind = ''}) {
  return html`<div class=${`scroll ${kind}`} tabindex="0" role="region" aria-label=${`${label}, table`}>${children}</div>`;
}

const rates = (c) => c.admit_rate + c.replay_rate + c.refuse_rate;

// Split is how a rate divides into admitted, replayed and refused, as long as
// its share of the largest.
function Split({of, most}) {
  const width = (n) => ({width: `${most ? (100 * n) / most : 0}%`});
  return html`<span class="split" aria-hidden="true">
    <i class="admit" style=${width(of.admit_rate)}></i><i class="replay" style=${width(of.replay_rate)}></i><i class="refuse" style=${width(of.refuse_rate)}></i></span>`;
}

// Key says what the parts of a split stand for.
const key = html`<span class="key"><span class="split"><i class="admit"></i></span>admitted <span class="split"><i class="replay"></i></span>replayed <span class="split"><i class="refuse"></i></span>refused</span>`;

const refusedShare = (c) => (rates(c) ? c.refuse_rate / rates(c) : null);

export function Classes({store}) {
  const {classes} = store.parts;
  if (!classes?.length) return null;
  const most = Math.max(...classes.map(rates));
  return html`<${Panel} id="classes" title="Classes" note="most important first" side=${key}>
    <${Scroll} label="Classes">
      <table>
        <thead><tr><th scope="col">Class</th><th scope="col" class="bar-col">Offered</th><th scope="col" class="n">Per second</th><th scope="col" class="n">Refused</th><th scope="col" class="n roomy">Refused in all</th><th scope="col" class="roomy">Admitted, last minute</th></tr></thead>
        <tbody>${classes.map((c) => html`<tr key=${c.class}>
          <th scope="row">${c.class === 'none' ? html`<span class="muted">no class</span>` : c.class}</th>
          <td class="bar-col"><${Split} of=${c} most=${most} /></td>
          <td class="n">${short(rates(c))}</td>
          <td class="n"><${Share} of=${refusedShare(c)} /></td>
          <td class="n roomy">${count(c.refuse)}</td>
          <td class="roomy"><${Spark} values=${store.values(`class/${c.class}/admit`)} height=${20} /></td>
        </tr>`)}</tbody>
      </table>
    <//>
  <//>`;
}

// Share stands out where it is not zero.
export function Share({of}) {
  return html`<span class=${of > 0 ? 'some' : 'muted'}>${of == null ? '–' : percent(of)}</span>`;
}

export class Tenants extends Component {
  state = {all: false};

  render({store}, {all}) {
    const {tenants} = store.parts;
    if (!tenants?.length) return null;
    const most = Math.max(...tenants.map(rates));
    const shown = all ? tenants : tenants.slice(0, 8);
    const special = {other: 'everybody else', unidentified: 'no tenant named'};
    return html`<${Panel} id="tenants" title="Busiest tenants" note="last 10 seconds" side=${key}>
      <${Scroll} label="Busiest tenants">
        <table>
          <thead><tr><th scope="col">Tenant</th><th scope="col" class="bar-col">Offered</th><th scope="col" class="n">Per second</th><th scope="col" class="n">Refused</th><th scope="col" class="n roomy">In all</th></tr></thead>
          <tbody>${shown.map((t) => html`<tr key=${t.tenant}>
            <th scope="row" class="name">${special[t.tenant] ? html`<span class="muted">${special[t.tenant]}</span>` : t.tenant}</th>
            <td class="bar-col"><${Split} of=${t} most=${most} /></td>
            <td class="n">${short(rates(t))}</td>
            <td class="n"><${Share} of=${refusedShare(t)} /></td>
            <td class="n roomy">${count(t.admit + t.replay + t.refuse)}</td>
          </tr>`)}</tbody>
        </table>
      <//>
      ${tenants.length > 8 && html`<button class="quiet more" aria-expanded=${all} onClick=${() => this.setState({all: !all})}>${all ? 'Fewer' : `All ${tenants.length}`}</button>`}
    <//>`;
  }
}

// Reasons lists counts by reason, most frequent first.
export function Reasons({of}) {
  const list = Object.entries(of ?? {}).sort((a, b) => b[1] - a[1]);
  if (!list.length) return html`<span class="muted">–</span>`;
  return html`<span class="reasons">${list.map(([reason, n]) => html`<span key=${reason}>${words(reason)} <b>${count(n)}</b></span>`)}</span>`;
}

export function Routes({store, now}) {
  const {routes} = store.parts;
  if (!routes?.length) return null;
  const most = Math.max(...routes.map(rates));
  const shadowed = routes.some((r) => r.shadow || r.mode === 'shadow');
  return html`<${Panel} id="routes" title="Routes" note="in the order of the configuration" side=${key}>
    <${Scroll} label="Routes">
      <table>
        <thead><tr><th scope="col">Route</th><th scope="col" class="bar-col roomy">Offered</th><th scope="col" class="n">Per second</th><th scope="col" class="n roomy">Hits</th><th scope="col">Refused</th>
          ${shadowed && html`<th scope="col">Would refuse</th>`}<th scope="col" class="n">Last hit</th></tr></thead>
        <tbody>${routes.map((r) => html`<tr key=${r.route}>
          <th scope="row" class="name">${r.route === 'unmatched' ? html`<span class="muted">no route matched</span>` : r.route} ${r.mode === 'shadow' && html`<span class="chip small" data-kind="notice">shadow</span>`}</th>
          <td class="bar-col roomy"><${Split} of=${r} most=${most} /></td>
          <td class="n">${short(rates(r))}</td>
          <td class="n roomy">${count(r.admit + r.replay + r.refuse)}</td>
          <td><${Reasons} of=${r.refused} /></td>
          ${shadowed && html`<td><${Reasons} of=${r.shadow} /></td>`}
          <td class="n">${r.last_hit ? ago(r.last_hit, now) : html`<span class="muted">never</span>`}</td>
        </tr>`)}</tbody>
      </table>
    <//>
  <//>`;
}

export function GatewayPanel({store, now}) {
  const {config, listeners, origin, decision_log, reloads} = store.parts;
  if (!config) return null;
  return html`<${Panel} id="gateway" title="Gateway">
    <dl class="facts">
      <dt>Configuration</dt><dd><code>${config.path || 'embedded defaults'}</code> <span class="muted">${config.hash}</span></dd>
      <dt>Loaded</dt><dd>${moment(new Date(config.loaded))} <span class="muted">${ago(config.loaded, now)}</span></dd>
      ${listeners?.map((l) => html`<dt>Listens (${l.name})</dt><dd><code>${l.address}</code></dd>`)}
      ${origin && html`<dt>Origin</dt><dd><code>${origin.url}</code>${origin.addresses?.map((a) => html`
        <span class="address"><span class="chip small" data-kind=${a.healthy ? 'good' : 'bad'}>${a.healthy ? 'healthy' : 'away'}</span> <code>${a.address}</code> <span class="muted">${a.in_flight} in flight${a.last_error ? `, ${a.last_error}` : ''}</span></span>`)}</dd>`}
      ${decision_log && html`<dt>Decision log</dt><dd>${count(decision_log.written)} written <span class="muted">${count(decision_log.sampled_out)} over the cap, ${count(decision_log.dropped)} dropped</span></dd>`}
    </dl>
  <//>
  <${Panel} id="reloads" title="Configuration history">
    ${reloads?.length ? html`<ol class="history">${reloads.map((r) => html`<li key=${r.at + r.trigger}>
        <span class="chip small" data-kind=${r.error ? 'bad' : 'good'}>${r.error ? 'failed' : 'loaded'}</span>
        <span>${moment(new Date(r.at))} <span class="muted">by ${r.trigger}</span> ${r.hash && html`<code>${r.hash.slice(0, 12)}</code>`}
        ${r.error && html`<span class="pre error">${r.error}</span>`}
        ${r.changed?.length > 0 && html`<span class="muted block">${r.changed.join(', ')}</span>`}</span>
      </li>`)}</ol>` : html`<p class="muted">Nothing loaded yet.</p>`}
  <//>`;
}
