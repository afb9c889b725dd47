// The decision tail: the latest decisions, to filter, to pause, to open.
import {html, Component} from './html.js';
import {Panel, Scroll} from './panels.js';
import {matcher} from './filter.js';
import {clock, count, moment, seconds, words} from './format.js';
import {look} from './palette.js';
import {Explanation} from './explanation.js';

const kinds = {
  all: () => true,
  refused: (d) => d.verdict === 'refuse',
  failed: (d) => !!d.failure,
  shadow: (d) => d.mode === 'shadow',
  admitted: (d) => d.verdict === 'admit',
  replayed: (d) => d.verdict === 'replay',
};

const shownAtOnce = 60;

// why is the word that says most about a decision, and the colour it has.
function why(d) {
  if (d.verdict === 'refuse') return [words(d.reason), look(d.reason)];
  if (d.failure) return [words(d.failure), look('shed')];
  if (d.mode === 'shadow') return [`would be ${words(d.shadow)}`, look(d.shadow)];
  return d.verdict === 'replay' ? ['replayed', look('replay')] : ['admitted', look('admit')];
}

export class Tail extends Component {
  state = {filter: '', kind: 'all', frozen: null, held: null, open: null};

  componentDidMount() {
    this.keys = (e) => {
      if (e.target.closest('input, textarea, select') || e.ctrlKey || e.metaKey || e.altKey) return;
      if (e.key === '/') {
        e.preventDefault();
        document.getElementById('filter').focus();
      }
      if (e.key === 'p') this.pause();
    };
    addEventListener('keydown', this.keys);
  }

  componentWillUnmount() {
    removeEventListener('keydown', this.keys);
  }

  pause = () => this.setState(({frozen}, {store}) => ({frozen: frozen ? null : store.tail}));

  // Rows stay where they are while somebody points at them or is among them.
  hold = () => this.setState(({held}, {store}) => ({held: held ?? store.tail}));
  release = () => this.setState({held: null});

  // toggle opens a decision, and pauses, so that it stays where it is.
  toggle = (d) => this.setState(({open, frozen, held}, {store}) => (open === d.n ? {open: null} : {open: d.n, frozen: frozen ?? held ?? store.tail}));

  render({store}, {filter, kind, frozen, held, open}) {
    const all = frozen ?? held ?? store.tail;
    const matches = matcher(filter);
    const found = all.filter((d) => kinds[kind](d) && matches(d));
    const shown = found.slice(-shownAtOnce).reverse();
    const newer = (store.tail.at(-1)?.n ?? 0) - (all.at(-1)?.n ?? 0);
    return html`<${Panel} id="tail" title="Latest decisions" note="up to 20 a second of each reason are kept">
      <form class="controls" role="search" onSubmit=${(e) => e.preventDefault()}>
        <input id="filter" type="search" value=${filter} placeholder="Filter: acme, tenant:acme reason:shed, a request id" aria-label="Filter decisions"
          autocomplete="off" spellcheck="false" onInput=${(e) => this.setState({filter: e.target.value})}
          onKeyDown=${(e) => e.key === 'Escape' && (this.setState({filter: ''}), e.target.blur())} />
        <div class="segments" role="group" aria-label="Kind">${Object.keys(kinds).map((k) => html`
          <button type="button" key=${k} aria-pressed=${k === kind} onClick=${() => this.setState({kind: k})}>${k}</button>`)}</div>
        <button type="button" class="pause" aria-pressed=${!!frozen} onClick=${this.pause} title="Pause (p)">${frozen ? `Resume${newer ? ` (${count(newer)} new)` : ''}` : 'Pause'}</button>
      </form>
      ${shown.length === 0 ? html`<p class="empty">${all.length ? 'No decision matches.' : 'No decision yet.'}</p>` : html`
      <${Scroll} label="Latest decisions" kind="tail">
        <table>
          <thead><tr><th scope="col">Time</th><th scope="col">Decision</th><th scope="col">Tenant</th><th scope="col" class="roomy">Route</th><th scope="col" class="roomy">Class</th><th scope="col" class="n">Status</th><th scope="col" class="n roomy">Retry after</th><th scope="col" class="n">Took</th></tr></thead>
          <tbody onMouseEnter=${this.hold} onMouseLeave=${this.release} onFocusIn=${this.hold} onFocusOut=${this.release}>${shown.map((d) => html`<${Row} key=${d.n} d=${d} open=${open === d.n} toggle=${() => this.toggle(d)} />`)}</tbody>
        </table>
      <//>`}
      <p class="foot muted" aria-live="off">${count(found.length)} of ${count(all.length)} kept${found.length > shown.length ? `, the latest ${shownAtOnce} shown` : ''}${held && !frozen && newer ? `; ${count(newer)} new, held while you are here` : ''}</p>
    <//>`;
  }
}

function Row({d, open, toggle}) {
  const [word, style] = why(d);
  return html`
    <tr class=${open ? 'open' : ''} onClick=${toggle}>
      <td><button class="disclose" aria-expanded=${open} onClick=${(e) => { e.stopPropagation(); toggle(); }}>${clock(new Date(d.ts), true)}<span class="unseen">, details of request ${d.id}</span></button></td>
      <td><span class="mark" style=${{'--c': `var(${style.color})`}} data-pattern=${style.pattern}></span>${word}</td>
      <td class="name">${d.tenant || html`<span class="muted">–</span>`}</td>
      <td class="roomy">${d.route}</td>
      <td class="roomy">${d.class}</td>
      <td class="n">${d.status || '–'}</td>
      <td class="n roomy">${d.retry_after ? `${d.retry_after} s` : '–'}</td>
      <td class="n">${seconds(d.done_us / 1e6)}</td>
    </tr>
    ${open && html`<tr class="details"><td colspan="8"><${Details} d=${d} /></td></tr>`}`;
}

// Details tell all that is known of one decision, and where its time went.
function Details({d}) {
  const facts = [
    ['Request id', html`<code>${d.id}</code>`],
    ['Ended', moment(new Date(d.ts))],
    ['Tenant', d.tenant || '–'],
    ['Route', d.route],
    ['Class', d.class],
    ['Verdict', `${d.verdict}${d.reason !== 'none' ? `: ${words(d.reason)}` : ''}`],
    d.candidate && ['Candidate', `${d.candidate.verdict}${d.candidate.reason !== 'none' ? `: ${words(d.candidate.reason)}` : ''}, as ${d.candidate.class}`],
    d.shadow && ['Would be refused', `${words(d.shadow)}, in shadow mode`],
    ['At the origin', words(d.outcome) + (d.failure ? `: ${words(d.failure)}` : '')],
    ['Answered', d.status ? `${d.status}${d.retry_after ? `, Retry-After ${d.retry_after} s` : ''}` : 'nothing could be sent'],
    ['Bytes', `${count(d.bytes_in)} in, ${count(d.bytes_out)} out`],
    ['Configuration', html`<code>${d.config}</code>`],
    d.detail && ['Detail', d.detail],
  ].filter(Boolean);
  const stages = [['decide', d.decided_us], ['send', d.sent_us], ['origin', d.answered_us], ['answer', d.done_us]];
  let before = 0;
  const parts = [];
  for (const [name, end] of stages) {
    if (!end) continue;
    parts.push({name, took: Math.max(0, end - before)});
    before = end;
  }
  const total = Math.max(1, before);
  return html`
    <dl class="facts">${facts.map(([k, v]) => html`<dt>${k}</dt><dd>${v}</dd>`)}</dl>
    <div class="stages" role="img" aria-label=${`Time: ${parts.map((p) => `${p.name} ${seconds(p.took / 1e6)}`).join(', ')}`}>
      ${parts.map((p) => html`<i key=${p.name} data-stage=${p.name} style=${{flexGrow: Math.max(p.took / total, 0.004)}}></i>`)}</div>
    <p class="stage-names">${parts.map((p) => html`<span key=${p.name}><span class="dot" data-stage=${p.name}></span>${p.name} <b>${seconds(p.took / 1e6)}</b></span>`)}</p>
    <${Explanation} key=${d.id} id=${d.id} />`;
}
