// The candidate: a policy that decides beside the one in force, and what would
// change if it were in force instead.
import {html, Component} from './html.js';
import {Chart} from './charts.js';
import {Panel, Scroll} from './panels.js';
import {ago, count, percent, short, span, words} from './format.js';

const rateOf = (n) => `${short(n)}/s`;

const kinds = [
  {name: 'refused_more', label: 'let in now, refused then', color: '--shed', pattern: 'cross'},
  {name: 'refused_less', label: 'refused now, let in then', color: '--admit', pattern: 'solid'},
  {name: 'otherwise', label: 'decided otherwise', color: '--other', pattern: 'level'},
];

const kindOf = (c) => (c.candidate === 'refuse' && c.live !== 'refuse' ? 0 : c.candidate !== 'refuse' && c.live === 'refuse' ? 1 : 2);

// change says what would become of a request.
const change = (c) => ['refused', 'let in', c.live === c.candidate ? 'refused otherwise' : {admit: 'let in', replay: 'replayed'}[c.candidate]][kindOf(c)];

export function Candidate({store, now}) {
  const {candidate} = store.parts;
  if (!candidate) return null;
  const totals = [0, 0, 0];
  for (const c of candidate.changes) totals[kindOf(c)] += c.count;
  return html`<div class="grid">
    <div class="span2"><${Panel} id="candidate" title="Candidate" note="decides beside the policy in force, and is not obeyed"
      side=${html`<span class="chip" data-kind=${candidate.off ? 'bad' : candidate.load_error ? 'notice' : 'plain'}>${candidate.off ? 'switched off' : candidate.load_error ? 'the one before' : 'asked'}</span>`}>
      <p class="summary">${verdict(candidate, totals)}</p>
      <${Changes} of=${candidate} />
      <dl class="facts">
        <dt>Policy</dt><dd><code>${candidate.path}</code> <span class="muted">${candidate.hash}, since ${ago(candidate.since, now)}</span></dd>
        ${candidate.reclassified > 0 && html`<dt>Another class</dt><dd>${count(candidate.reclassified)} requests</dd>`}
        ${candidate.load_error && html`<dt>File now</dt><dd><span class="pre error">${candidate.load_error}</span></dd>`}
      </dl>
    <//></div>
    <${Difference} store=${store} />
  </div>`;
}

function verdict({asked, different}, [more, less]) {
  if (!asked) return 'No request yet.';
  if (!different) return `All of ${count(asked)} decisions would be the same.`;
  const parts = [more && `${count(more)} more refused`, less && `${count(less)} more let in`].filter(Boolean);
  return `${percent(different / asked)} of ${count(asked)} decisions would change${parts.length ? `: ${parts.join(', ')}` : ''}.`;
}

class Changes extends Component {
  state = {all: false};

  render({of}, {all}) {
    if (!of.changes.length) return null;
    const few = 8;
    const shown = all ? of.changes : of.changes.slice(0, few);
    return html`<${Scroll} label="Changes">
        <table>
          <thead><tr><th scope="col">Class</th><th scope="col">Route</th><th scope="col">Would be</th><th scope="col">Reason</th><th scope="col" class="n">Requests</th><th scope="col" class="n roomy">Of all asked</th></tr></thead>
          <tbody>${shown.map((c) => html`<tr key=${[c.route, c.class, c.live, c.candidate, c.reason].join()}>
            <th scope="row">${c.class === 'none' ? html`<span class="muted">no class</span>` : c.class}</th>
            <td class="name">${c.route === 'unmatched' ? html`<span class="muted">no route matched</span>` : c.route}</td>
            <td><span class="mark" style=${{'--c': `var(${kinds[kindOf(c)].color})`}} data-pattern=${kinds[kindOf(c)].pattern}></span>${change(c)}</td>
            <td>${words(c.reason)}</td>
            <td class="n">${count(c.count)}</td>
            <td class="n roomy">${percent(c.count / of.asked)}</td>
          </tr>`)}</tbody>
        </table>
      <//>
      ${of.changes.length > few && html`<button class="quiet more" aria-expanded=${all} onClick=${() => this.setState({all: !all})}>${all ? 'Fewer' : `All ${of.changes.length} changes`}</button>`}`;
  }
}

// Difference draws the changes of the last five minutes.
function Difference({store}) {
  const layers = kinds.map((k) => ({...k, values: store.values(`candidate/${k.name}`), now: store.lately(`candidate/${k.name}`)}))
    .filter((l, i) => i < 2 || l.values.some((v) => v > 0));
  const total = (name) => store.values(`candidate/${name}`).reduce((a, b) => a + b, 0);
  const asked = total('asked');
  const differ = kinds.reduce((n, k) => n + total(k.name), 0);
  return html`<${Chart} id="candidate-difference" title="Would change" note="candidate" stacked height=${200} times=${store.times} layers=${layers} format=${rateOf}
    summary=${asked ? `${percent(differ / asked)} of the decisions of the last ${span(store.times.length)}.` : 'No request yet.'} />`;
}
