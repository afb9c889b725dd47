// What the parts of the gateway report: queues, signals, places at the origin,
// idempotency keys. Each appears only where the running gateway has it.
import {html} from './html.js';
import {Chart} from './charts.js';
import {Other} from './other.js';
import {Panel, Scroll} from './panels.js';
import {count, percent, seconds, short, words} from './format.js';
import {lineColor} from './palette.js';

// The sections with a view of their own; queues and signals have their place
// near the top.
const top = {queues: Queues, signals: Signals};
const views = {places: Places, idempotency: Keys};

export function TopSections({store}) {
  const reported = store.parts.sections ?? {};
  return Object.keys(top).filter((name) => reported[name]).map((name) => html`<${top[name]} key=${name} value=${reported[name]} store=${store} />`);
}

export function Sections({store}) {
  const reported = store.parts.sections ?? {};
  const names = [...Object.keys(views).filter((n) => n in reported), ...Object.keys(reported).filter((n) => !(n in views) && !(n in top))];
  return html`<div class=${names.length % 3 === 0 ? 'grid three' : 'grid'}>${names.map((name) => html`<${views[name] ?? Other} key=${name} name=${name} value=${reported[name]} store=${store} />`)}</div>`;
}

// inOrder lists what is said of each class, most important first.
function inOrder(store, byClass) {
  const order = (store.parts.classes ?? []).map((c) => c.class);
  return Object.entries(byClass ?? {}).sort((a, b) => order.indexOf(a[0]) - order.indexOf(b[0]));
}

function Queues({value, store}) {
  return Object.entries(value).map(([name, q]) => html`<${Queue} key=${name} name=${name} q=${q} store=${store} />`);
}

function Queue({name, q, store}) {
  const used = q.wait_seconds == null ? null : q.wait_seconds / q.max_useful_age_seconds;
  const level = used == null ? 'unknown' : used >= 1 ? 'over' : used >= 0.5 ? 'high' : 'fine';
  const classes = inOrder(store, q.share_admitted);
  const wait = store.values(`queues/${name}/wait_seconds`);
  const age = store.series.get(`queues/${name}/age_seconds`);
  const layers = [{name: 'wait', label: 'predicted wait', values: wait, now: q.wait_seconds, color: '--replay'}];
  if (age) layers.push({name: 'age', label: 'age of the oldest', values: age, color: '--admit', dash: [2, 3]});
  // The objective is drawn once it is in sight; before, it would flatten the rest.
  if (Math.max(...wait.filter((v) => v != null), 0) > q.max_useful_age_seconds / 4) {
    layers.push({name: 'objective', values: store.times.map(() => q.max_useful_age_seconds), color: '--shed', dash: [8, 5]});
  }
  const shares = classes.map(([c], i) => ({name: c, values: store.values(`queues/${name} ${c}/share_admitted`), now: q.share_admitted[c], color: lineColor(i), dash: [[], [7, 4], [2, 3]][i % 3]}));
  const known = used == null ? 'not known' : `${seconds(q.wait_seconds)}, ${percent(used)} of the objective`;
  return html`<div class="grid three">
    <${Panel} id=${`queue-${name}`} title=${`Queue ${name}`} side=${html`
      ${q.mode === 'shadow' && html`<span class="chip small" data-kind="notice">shadow</span>`}
      ${q.closed && html`<span class="chip small" data-kind="bad">closed: signal lost</span>`}`}>
      <p class="figure">${used == null ? 'not known' : seconds(q.wait_seconds)}<small> predicted wait, objective ${seconds(q.max_useful_age_seconds)}</small></p>
      <div class="gauge" role="img" aria-label=${`Predicted wait ${known}`} data-level=${level}><i style=${{width: `${Math.min(100, (used ?? 0) * 100)}%`}}></i></div>
      <table>
        <thead><tr><th scope="col">Class</th><th scope="col" class="bar-col">Let in</th><th scope="col" class="n">Share</th><th scope="col" class="n">Come back in</th></tr></thead>
        <tbody>${classes.map(([c, share]) => html`<tr key=${c}>
          <th scope="row">${c}</th>
          <td class="bar-col"><span class="split" aria-hidden="true"><i class="admit" style=${{width: `${share * 100}%`}}></i><i class="refuse" style=${{width: `${(1 - share) * 100}%`}}></i></span></td>
          <td class="n">${percent(share)}</td>
          <td class="n">${q.retry_after?.[c] ?? html`<span class="muted">–</span>`}</td>
        </tr>`)}</tbody>
      </table>
      <p class="muted foot">${q.worst_signal ? html`Judged by signal ${q.worst_signal}; ` : ''}refusing began or ended ${count(q.transitions)} times.</p>
    <//>
    <${Chart} id=${`queue-${name}-wait`} title=${`${name}: wait`} times=${store.times} height=${200} least=${1} layers=${layers} format=${seconds}
      summary=${`Work admitted now waits ${known}.`} />
    <${Chart} id=${`queue-${name}-share`} title=${`${name}: share let in`} times=${store.times} height=${200} most=${1} layers=${shares} format=${percent}
      summary=${classes.every(([, s]) => s >= 1) ? 'Every class is let in.' : `${classes.filter(([, s]) => s < 1).map(([c, s]) => `${c} ${percent(s)}`).join(', ')}.`} />
  </div>`;
}

const healthKind = {fresh: 'good', starting: 'plain', late: 'notice', lost: 'bad'};
const maybe = (v, write) => (v == null ? html`<span class="muted">–</span>` : write(v));

function Signals({value}) {
  return html`<${Panel} id="signals" title="Signals" note="what was last read of each queue">
    <${Scroll} label="Signals"><table>
      <thead><tr><th scope="col">Queue and signal</th><th scope="col">Health</th><th scope="col" class="n">Read</th><th scope="col" class="n">Oldest</th><th scope="col" class="n">Depth</th>
        <th scope="col" class="n">Done per second</th><th scope="col" class="n roomy">Wait</th><th scope="col" class="roomy">When lost</th><th scope="col">Last reading</th></tr></thead>
      <tbody>${Object.entries(value).map(([name, s]) => html`<tr key=${name}>
        <th scope="row" class="name">${name}</th>
        <td><span class="chip small" data-kind=${healthKind[s.health] ?? 'plain'}>${s.health}</span>${s.stuck && html` <span class="chip small" data-kind="bad">stuck</span>`}</td>
        <td class="n">${maybe(s.read_ago_seconds, (v) => `${seconds(v)} ago`)}</td>
        <td class="n">${maybe(s.age_seconds, seconds)}</td>
        <td class="n">${maybe(s.depth, count)}</td>
        <td class="n">${maybe(s.rate, short)}</td>
        <td class="n roomy">${maybe(s.wait_seconds, seconds)}</td>
        <td class="roomy">${s.on_loss}</td>
        <td class="name">${s.error ? html`<span class="some">${s.error}</span>` : s.last}</td>
      </tr>`)}</tbody>
    </table><//>
  <//>`;
}

function Places({value, store}) {
  const classes = (store.parts.classes ?? []).map((c) => c.class);
  return html`<${Panel} id="places" title="Places at the origin">
    <${Scroll} label="Places at the origin"><table>
      <thead><tr><th scope="col">Of</th><th scope="col" class="bar-col">Taken</th><th scope="col" class="n">Taken</th><th scope="col" class="n">Places</th><th scope="col">Waiting</th></tr></thead>
      <tbody>${Object.entries(value).map(([name, p]) => {
        const waiting = (p.Classes ?? []).map((c, i) => [classes[i], c.Waiting]).filter(([, n]) => n > 0);
        return html`<tr key=${name}>
          <th scope="row" class="name">${name}</th>
          <td class="bar-col"><span class="gauge" data-level=${p.Used >= p.Limit ? 'over' : p.Used >= p.Limit * 0.8 ? 'high' : 'fine'} aria-hidden="true"><i style=${{width: `${Math.min(100, (100 * p.Used) / Math.max(1, p.Limit))}%`}}></i></span></td>
          <td class="n">${count(p.Used)}</td>
          <td class="n">${count(p.Limit)}${p.Limit < p.Max && html` <span class="muted">of ${count(p.Max)}</span>`}</td>
          <td>${waiting.length ? html`<span class="reasons">${waiting.map(([c, n]) => html`<span key=${c}>${c} <b>${count(n)}</b></span>`)}</span>` : html`<span class="muted">nobody</span>`}</td>
        </tr>`;
      })}</tbody>
    </table><//>
  <//>`;
}

function Keys({value: v}) {
  const down = v.store_errors > 0 || v.refused_store_down > 0;
  const facts = [
    ['Requests', html`<span class="reasons">${Object.entries(v.requests ?? {}).filter(([, n]) => n > 0).map(([status, n]) => html`<span key=${status}>${words(status)} <b>${count(n)}</b></span>`)}</span>`],
    ['From memory', count(v.from_memory)],
    ['Now', `${count(v.running)} running, ${count(v.waiting)} waiting for the first to end`],
    ['Put in doubt', html`<span class=${v.put_in_doubt > 0 ? 'some' : 'muted'}>${count(v.put_in_doubt)}</span>`],
    v.taken_over > 0 && ['Taken over', count(v.taken_over)],
    v.not_stored > 0 && ['Not stored', html`<span class="some">${count(v.not_stored)}</span>`],
    ['Store', html`${v.store} <span class=${down ? 'some' : 'muted'}>${count(v.store_errors)} errors, ${count(v.refused_store_down)} requests refused for them${v.retrying ? `, ${count(v.retrying)} writes being tried again` : ''}</span>`],
  ].filter(Boolean);
  return html`<${Panel} id="idempotency" title="Idempotency keys" note="since the start"><dl class="facts">${facts.map(([k, x]) => html`<dt>${k}</dt><dd>${x}</dd>`)}</dl><//>`;
}
