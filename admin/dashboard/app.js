// The dashboard: one store, one tree, drawn again when the store changes.
import {html, render} from './html.js';
import {Store} from './stream.js';
import {Banners, Decisions, Failures, Header, ShadowChart, Tiles, Times} from './overview.js';
import {Classes, GatewayPanel, Routes, Tenants} from './panels.js';
import {Candidate} from './candidate.js';
import {Sections, TopSections} from './sections.js';
import {Tail} from './tail.js';
import {percent, short} from './format.js';
import {nextTheme, onTheme} from './theme.js';

const root = document.getElementById('app');
root.textContent = '';

function App({store, now}) {
  const known = !!store.parts.version;
  return html`
    <a class="skip" href="#main">To the content</a>
    <${Header} store=${store} now=${now} />
    <main id="main" tabindex="-1">
      <${Banners} store=${store} now=${now} />
      ${known ? html`
        <${Tiles} store=${store} />
        <div class="grid">
          <div class="span2"><${Decisions} store=${store} /></div>
          <${Times} store=${store} />
        </div>
        <${TopSections} store=${store} />
        <div class="grid">
          <${Failures} store=${store} />
          <${ShadowChart} store=${store} />
        </div>
        <div class="grid"><${Classes} store=${store} /><${Tenants} store=${store} /></div>
        <${Candidate} store=${store} now=${now} />
        <${Sections} store=${store} />
        <${Routes} store=${store} now=${now} />
        <${Tail} store=${store} />
        <div class="grid"><${GatewayPanel} store=${store} now=${now} /></div>` : html`<p class="empty">Waiting for the gateway.</p>`}
    </main>
    <footer class="foot"><a href="/status">status</a> <a href="/metrics">metrics</a> <span class="muted">Keys: <kbd>/</kbd> filter, <kbd>p</kbd> pause, <kbd>t</kbd> theme</span></footer>
    <p class="unseen" role="status" id="spoken"></p>`;
}

let pending = false;
const store = new Store(draw);

// draw redraws at most once a frame.
function draw() {
  if (pending) return;
  pending = true;
  requestAnimationFrame(() => {
    pending = false;
    // The gateway's clock, as far as it is known: ages are told by it.
    const last = store.times.at(-1);
    const now = store.connection === 'lost' || !last ? Date.now() : last * 1000;
    render(html`<${App} store=${store} now=${now} />`, root);
    document.title = title();
  });
}

function title() {
  const refused = store.lately('refuse') ?? 0;
  const all = store.lately('received') ?? 0;
  if (store.connection === 'lost') return '⚠ Sluice';
  return all ? `${percent(refused / all)} refused – Sluice` : 'Sluice';
}

// Screen readers are told how things stand, rarely enough to be bearable.
setInterval(() => {
  const spoken = document.getElementById('spoken');
  if (!spoken || store.connection !== 'live') return;
  spoken.textContent = `${short(store.lately('admit', 10) ?? 0)} requests a second admitted, ${short(store.lately('refuse', 10) ?? 0)} refused.`;
}, 30_000);

addEventListener('keydown', (e) => {
  if (e.key === 't' && !e.target.closest('input, textarea, select') && !e.ctrlKey && !e.metaKey && !e.altKey) nextTheme();
});
onTheme(draw);
draw();
