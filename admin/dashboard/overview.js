// The top of the page: the state in a line, what is wrong, the figures that
// matter, and the charts.
import {html} from './html.js';
import {Chart, Spark} from './charts.js';
import {ago, count, percent, seconds, short, span, words} from './format.js';
import {look} from './palette.js';
import {nextTheme, theme} from './theme.js';

const sum = (numbers) => numbers.reduce((a, b) => a + b, 0);
const rateOf = (n) => `${short(n)}/s`;

const connections = {
  live: 'Live',
  connecting: 'Connecting…',
  polling: 'Every 5 s',
  lost: 'Reconnecting…',
  hidden: 'Paused while hidden',
};

export function Header({store, now}) {
  const {version, mode, draining, not_ready, started, config} = store.parts;
  const ready = draining ? 'Draining' : not_ready ? 'Not ready' : 'Ready';
  return html`
    <header class="bar">
      <img src="/assets/icon.svg" alt="" width="30" height="30" />
      <h1>Sluice <small>${version}</small></h1>
      ${version && html`
        <span class="chip" data-kind=${mode === 'enforce' ? 'plain' : 'notice'}>${{enforce: 'Enforcing', shadow: 'Shadow'}[mode] ?? 'Partly shadow'}</span>
        <span class="chip" data-kind=${ready === 'Ready' ? 'good' : 'bad'}>${ready}</span>
        <span class="fact">up ${span(Math.max(0, (now - new Date(started)) / 1000))}</span>
        ${config?.hash && html`<span class="fact wide">config <code>${config.hash.slice(0, 12)}</code></span>`}`}
      <span class="spacer"></span>
      <span class="connection" data-state=${store.connection}><i></i>${connections[store.connection]}</span>
      <button class="quiet" onClick=${nextTheme} title="Theme (t)" aria-label=${`Theme: ${theme}. Change it`}>${{auto: '◐', light: '☀', dark: '☾'}[theme]}<span class="wide"> ${theme}</span></button>
    </header>`;
}

// Banners are what somebody has to do something about.
export function Banners({store, now}) {
  const {candidate, config, draining, not_ready, mode, decision_log, origin} = store.parts;
  const list = [];
  if (store.connection === 'lost') list.push(['bad', 'The gateway does not answer', `What is shown is from ${ago(new Date(store.lostAt), now)}. Trying again.`]);
  if (config?.reload_error) list.push(['bad', 'The last reload failed; the configuration before it still runs', config.reload_error]);
  if (draining) list.push(['notice', 'Draining', 'The gateway finishes what it has accepted and takes nothing new.']);
  else if (not_ready) list.push(['bad', 'Not ready', not_ready]);
  const away = origin?.addresses?.filter((a) => !a.healthy) ?? [];
  if (away.length) list.push(['bad', away.length === origin.addresses.length ? 'The origin cannot be reached' : 'Part of the origin cannot be reached', away.map((a) => a.address + (a.last_error ? `: ${a.last_error}` : '')).join('; ')]);
  if (mode === 'shadow') list.push(['notice', 'Shadow mode', 'Everything is decided and counted, and nothing is refused.']);
  if (config?.restart_pending?.length) list.push(['notice', 'Waiting for a restart', config.restart_pending.join(', ')]);
  if (candidate?.off) list.push(['notice', 'The candidate is switched off', 'It panicked; the policy in force is not affected. The next reload asks it again.']);
  if (candidate?.load_error) list.push(['notice', 'The new candidate is wrong; the one before goes on', candidate.load_error]);
  if (decision_log?.dropped) list.push(['notice', 'The decision log is incomplete', `${count(decision_log.dropped)} records were dropped because its output is too slow.`]);
  if (decision_log?.failed) list.push(['bad', 'The decision log cannot be written', `${count(decision_log.failed)} records are lost.`]);
  return html`<div class="banners" role="status">${list.map(([kind, title, text]) => html`
    <div class="banner" data-kind=${kind} key=${title}><strong>${title}</strong><span class="pre">${text}</span></div>`)}</div>`;
}

export function Tiles({store}) {
  const {totals} = store.parts;
  if (!totals) return null;
  const offered = store.lately('received') ?? 0;
  const rate = {admit: store.lately('admit') ?? 0, refuse: store.lately('refuse') ?? 0, replay: store.lately('replay') ?? 0};
  const decided = rate.admit + rate.refuse + rate.replay;
  const worst = reasonsNow(store)[0];
  const p99 = store.lately('admitted/p99');
  const own = store.lately('decide/p99');
  const tiles = [
    {name: 'Offered', value: short(offered), unit: '/s', color: '--ink', series: 'received', sub: `${count(totals.received)} in all`},
    {name: 'Admitted', value: short(rate.admit), unit: '/s', color: '--admit', series: 'admit', sub: decided ? `${percent(rate.admit / decided)} of offered` : 'nothing offered'},
    {name: 'Refused', value: short(rate.refuse), unit: '/s', color: '--shed', series: 'refuse', sub: worst && decided ? `${percent(rate.refuse / decided)}, mostly ${words(worst[0])}` : 'nothing refused'},
    totals.verdicts.replay > 0 && {name: 'Replayed', value: short(rate.replay), unit: '/s', color: '--replay', series: 'replay', sub: `${count(totals.verdicts.replay)} in all`},
    {name: 'In flight', value: count(totals.in_flight), unit: '', color: '--key', series: 'in_flight', sub: 'requests being served'},
    {name: 'Slowest 1 in 100', value: p99 == null ? '–' : seconds(p99), unit: '', color: '--deferred', series: 'admitted/p99', sub: `half within ${seconds(store.lately('admitted/p50'))}`},
    {name: 'Time to decide', value: own == null ? '–' : seconds(own), unit: '', color: '--signal-lost', series: 'decide/p99', sub: '99 in 100 within'},
  ].filter(Boolean);
  return html`<section class="tiles" aria-label="Now">${tiles.map((t) => html`
    <div class="tile panel" key=${t.name}>
      <h2>${t.name}</h2>
      <p class="figure">${t.value}${t.unit && html`<small>${t.unit}</small>`}</p>
      <p class="sub">${t.sub}</p>
      <${Spark} values=${store.values(t.series)} color=${t.color} />
    </div>`)}</section>`;
}

// reasonsNow lists the reasons of the last ten seconds, most frequent first.
const reasonsNow = (store) => store.names('refuse/')
  .map((name) => [name, store.lately(`refuse/${name}`, 10)])
  .filter(([, n]) => n > 0)
  .sort((a, b) => b[1] - a[1]);

// reasonsBy lists the reasons of the last five minutes, most frequent first.
function reasonsBy(store, prefix) {
  return store.names(prefix)
    .map((name) => [name, sum(store.values(prefix + name))])
    .filter(([, n]) => n > 0)
    .sort((a, b) => b[1] - a[1]);
}

const apart = 6; // reasons drawn apart; the others share an area

function reasonLayers(store, prefix) {
  const reasons = reasonsBy(store, prefix);
  // Layers keep their order while their shares change.
  const layers = reasons.slice(0, apart).map(([name]) => name).sort()
    .map((name) => ({name, label: words(name), values: store.values(prefix + name), now: store.lately(prefix + name), ...look(name)}));
  const rest = reasons.slice(apart);
  if (rest.length) {
    const values = store.times.map((_, i) => sum(rest.map(([name]) => store.values(prefix + name)[i])));
    layers.push({name: 'other', label: `${rest.length} other reasons`, values, ...look('other')});
  }
  return layers;
}

export function Decisions({store}) {
  const layers = [];
  for (const [name, label] of [['admit', 'admitted'], ['replay', 'replayed']]) {
    const values = store.values(name);
    if (name === 'admit' || values.some((v) => v > 0)) layers.push({name, label, values, now: store.lately(name), ...look(name)});
  }
  const refused = reasonLayers(store, 'refuse/');
  layers.push(...refused);
  const all = sum(store.values('admit')) + sum(store.values('replay')) + sum(store.values('refuse'));
  const share = all ? sum(store.values('refuse')) / all : 0;
  const most = reasonsBy(store, 'refuse/')[0];
  const summary = all
    ? `${count(Math.round(all))} decisions in the last ${span(store.times.length)}; ${percent(share)} refused${most ? `, most of them for ${words(most[0])}` : ''}.`
    : 'No requests yet.';
  return html`<${Chart} id="decisions" title="Decisions per second" stacked height=${280} times=${store.times} layers=${layers} format=${rateOf} summary=${summary} />`;
}

export function Times({store}) {
  const layers = [
    {name: 'half', label: 'half within', values: store.values('admitted/p50'), now: store.lately('admitted/p50'), color: '--replay'},
    {name: '99 in 100', label: '99 in 100 within', values: store.values('admitted/p99'), now: store.lately('admitted/p99'), color: '--deferred', dash: [6, 4]},
  ];
  const seen = store.values('admitted/p99').filter((v) => v > 0);
  const summary = seen.length ? `Admitted requests; the worst second had 99 in 100 within ${seconds(Math.max(...seen))}.` : 'No request was admitted yet.';
  return html`<${Chart} id="times" title="Time to answer" height=${280} least=${0.002} times=${store.times} layers=${layers} format=${seconds} summary=${summary} />`;
}

// Failures are requests that were admitted and then failed.
export function Failures({store}) {
  const layers = reasonLayers(store, 'failure/');
  if (!layers.length) return null;
  const n = sum(reasonsBy(store, 'failure/').map(([, n]) => n));
  return html`<${Chart} id="failures" title="Failed after admission" stacked height=${180} times=${store.times} layers=${layers} format=${rateOf}
    summary=${`${count(Math.round(n))} requests in the last ${span(store.times.length)}.`} />`;
}

// ShadowChart shows what policies in shadow mode would have refused.
export function ShadowChart({store}) {
  const layers = reasonLayers(store, 'shadow/');
  if (!layers.length) return null;
  const n = sum(reasonsBy(store, 'shadow/').map(([, n]) => n));
  return html`<${Chart} id="shadow" title="Would have been refused" note="shadow" stacked height=${180} times=${store.times} layers=${layers} format=${rateOf}
    summary=${`${count(Math.round(n))} requests in the last ${span(store.times.length)} passed that a policy in shadow mode would refuse.`} />`;
}
