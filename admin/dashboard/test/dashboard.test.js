// Browser tests of the dashboard, in real Chromium, against the real admin
// listener over made-up traffic. Run with: npm install && npm test
// CHROMIUM names the browser, if it is not /usr/bin/chromium.
import {after, before, test} from 'node:test';
import assert from 'node:assert/strict';
import {execFileSync, spawn} from 'node:child_process';
import {mkdirSync, mkdtempSync, readFileSync, rmSync} from 'node:fs';
import {createRequire} from 'node:module';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import {chromium} from 'playwright-core';

const here = import.meta.dirname;
const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const work = mkdtempSync(join(tmpdir(), 'sluice-dashboard-'));
const binary = join(work, 'gateway');
let browser;
let gateway; // {address, stop}

// start runs the stand-in gateway and returns once it listens.
async function start(listen = '127.0.0.1:0') {
  const child = spawn(binary, ['-listen', listen, '-rate', '300'], {stdio: ['ignore', 'pipe', 'inherit']});
  const ended = new Promise((done) => child.once('exit', done));
  const address = await new Promise((done, fail) => {
    child.stdout.once('data', (d) => done(String(d).match(/listening on (\S+)/)[1]));
    child.once('exit', () => fail(new Error('the gateway ended')));
  });
  return {address, url: `http://${address}`, stop: () => { child.kill('SIGINT'); return ended; }};
}

before(async () => {
  execFileSync('go', ['build', '-o', binary, './gateway'], {cwd: here});
  gateway = await start();
  browser = await chromium.launch({executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium', args: process.getuid?.() === 0 ? ['--no-sandbox'] : []});
});

after(async () => {
  await browser?.close();
  await gateway?.stop();
  rmSync(work, {recursive: true});
});

// reveal opens the newest decision. Rows hold still under the pointer.
async function reveal(page) {
  await page.locator('.tail tbody').hover({position: {x: 60, y: 10}});
  const button = page.locator('.tail .disclose').first();
  await button.click();
  return button;
}

// open loads the dashboard. Whatever the page complains of, a violation of its
// content security policy too, fails the test when the page is closed.
async function open(options = {}, prepare = async () => {}) {
  const context = await browser.newContext({viewport: {width: 1280, height: 900}, ...options});
  const page = await context.newPage();
  const complaints = [];
  page.on('console', (m) => ['error', 'warning'].includes(m.type()) && complaints.push(m.text()));
  page.on('pageerror', (e) => complaints.push(e.stack));
  await prepare(page);
  await page.goto(gateway.url);
  await page.getByRole('heading', {name: 'Decisions per second'}).waitFor();
  page.done = async (allowed = /^$/) => {
    await context.close();
    assert.deepEqual(complaints.filter((c) => !allowed.test(c)), []);
  };
  return page;
}

const number = (text) => Number(text.replace(/[^0-9]/g, ''));
const offered = async (page) => number(await page.locator('.tile .sub').first().textContent());

test('loads, and its totals move and agree with the status', async () => {
  const page = await open();
  const status = async () => (await (await fetch(`${gateway.url}/status`)).json()).totals.received;
  const first = await offered(page);
  const low = await status();
  await page.waitForFunction((n) => Number(document.querySelector('.tile .sub').textContent.replace(/[^0-9]/g, '')) > n, low);
  const seen = await offered(page);
  const high = await status();
  assert.ok(first < seen && low < seen && seen <= high, `first ${first}, status ${low}, page ${seen}, status ${high}`);
  assert.equal(await page.locator('.connection').textContent(), 'Live');
  assert.match(await page.locator('#decisions-title').locator('xpath=../..').locator('.summary').textContent(), /decisions in the last/);
  await page.done();
});

test('a tenant whose name is markup stays text', async () => {
  const page = await open();
  await page.getByRole('button', {name: /^All \d+$/}).click();
  await page.getByRole('searchbox').fill('onerror');
  await page.locator('.tail tbody tr').first().waitFor();
  await reveal(page);
  assert.ok(await page.getByText("<img src=x onerror=document.title='broken'>").count() >= 3, 'the name is shown as it is');
  assert.equal(await page.locator('img[src="x"]').count(), 0);
  assert.doesNotMatch(await page.title(), /broken/);
  await page.done();
});

test('the tail filters, pauses, and opens a decision', async () => {
  const page = await open();
  await page.getByRole('searchbox').fill('tenant:acme reason:tenant_limit');
  await page.locator('.tail tbody tr').first().waitFor();
  for (const row of await page.locator('.tail tbody tr').allInnerTexts()) assert.match(row, /tenant limit\s*acme/);
  await page.getByRole('button', {name: 'failed', exact: true}).click();
  await page.getByText('No decision matches.').waitFor();
  await page.getByRole('button', {name: 'refused', exact: true}).click();
  const details = await reveal(page);
  assert.equal(await details.getAttribute('aria-expanded'), 'true');
  await page.getByText('Asking why…').waitFor({state: 'detached'});
  const text = await page.locator('.tail .details').innerText();
  for (const want of [/Request id\s*[0-9a-f]{16}/, /refuse: tenant limit/, /429, Retry-After \d+ s/, /bucket default: 0 of 200 tokens/]) assert.match(text, want);
  // Opening pauses: the row stays while others arrive.
  await page.getByRole('button', {name: /Resume \(.* new\)/}).waitFor();
  assert.equal(await page.locator('.tail .details').innerText(), text);
  await page.getByRole('button', {name: /Resume/}).click();
  await page.getByRole('button', {name: 'Pause'}).waitFor();
  await page.done();
});

test('a failed reload is in plain sight until one succeeds', async () => {
  const page = await open();
  assert.equal((await fetch(`${gateway.url}/reload`, {method: 'POST'})).status, 422);
  await page.locator('.banner', {hasText: 'The last reload failed'}).getByText('tenants.limit.rate: 100 has no unit; write 100/s').waitFor();
  await page.locator('.history li', {hasText: 'failed'}).waitFor();
  assert.equal((await fetch(`${gateway.url}/reload`, {method: 'POST'})).status, 200);
  await page.locator('.banner').waitFor({state: 'detached'});
  await page.done();
});

test('what the parts report has its place, known or not', async () => {
  const page = await open();
  const queue = page.getByRole('region', {name: 'Queue orders'});
  assert.match(await queue.innerText(), /predicted wait, objective 5 min[\s\S]*critical[\s\S]*standard[\s\S]*bulk/);
  await queue.getByRole('img', {name: /^Predicted wait .* of the objective$/}).waitFor();
  await page.getByRole('figure', {name: 'orders: wait'}).locator('canvas').waitFor();
  await page.getByRole('figure', {name: 'orders: share let in'}).getByText('bulk').waitFor();
  assert.match(await page.getByRole('region', {name: 'Signals', exact: true}).innerText(), /orders\/redis_stream\s+fresh/);
  assert.match(await page.getByRole('region', {name: 'Places at the origin', exact: true}).innerText(), /all routes\s+25\s+200\s+bulk 3/);
  assert.match(await page.getByRole('region', {name: 'Idempotency keys'}).innerText(), /replayed 1,288[\s\S]*Put in doubt\s+2/);
  assert.match(await page.getByRole('region', {name: 'Connections'}).innerText(), /open\s+32/);
  await page.done();
});

test('a candidate tells what would change, and agrees with the status', async () => {
  const page = await open();
  const card = page.getByRole('region', {name: 'Candidate', exact: true});
  await card.getByText(/% of [\d,]+ decisions would change: [\d,]+ more refused, [\d,]+ more let in/).waitFor();
  const rows = await card.locator('tbody tr').allInnerTexts();
  assert.ok(rows.some((r) => /bulk\s+\S+\s+refused\s+deferred/.test(r)), rows.join('; '));
  assert.ok(rows.some((r) => /let in\s+tenant limit/.test(r)), rows.join('; '));
  assert.match(await card.innerText(), /\/etc\/sluice\/next\.yaml\s+51d0c47ae99b/);
  const {candidate} = await (await fetch(`${gateway.url}/status`)).json();
  assert.equal(candidate.asked, candidate.same + candidate.different);
  assert.equal(candidate.different, candidate.changes.reduce((n, c) => n + c.count, 0));
  const shown = number((await card.locator('.summary').textContent()).match(/of ([\d,]+) decisions/)[1]);
  assert.ok(shown <= candidate.asked && shown > 0, `page ${shown}, status ${candidate.asked}`);
  await page.getByRole('figure', {name: 'Would change'}).locator('canvas').waitFor();
  await page.done();
});

test('a decision is explained, step by step, with hostile text as text', async () => {
  const page = await open();
  for (const last of ['[1-9a-f]', '0']) {
    // A decision whose id ends so, found by opening rows by keyboard.
    await page.locator('#filter').fill('');
    await page.waitForFunction((re) => [...document.querySelectorAll('.tail .disclose .unseen')].some((e) => new RegExp(re).test(e.textContent)), `${last}$`);
    const id = await page.evaluate((re) => [...document.querySelectorAll('.tail .disclose .unseen')].map((e) => e.textContent.split(' ').at(-1)).find((t) => new RegExp(re).test(t)), `${last}$`);
    await page.locator('#filter').fill(`id:${id}`);
    const button = page.locator('.tail .disclose').first();
    await button.focus();
    await page.keyboard.press('Enter');
    const told = page.getByRole('region', {name: `Explanation of ${id}`});
    if (last === '0') {
      await told.getByText('It cannot be decided again: the policy that decided is gone').waitFor();
    } else {
      await told.locator('.steps li').nth(3).waitFor();
      assert.match(await told.locator('.verdict').innerText(), /refuse: deferred decided by queue, config\.yaml:27 queues\.orders\.shed\.bulk/);
      assert.equal(await told.locator('.steps li[data-decides=true]').count(), 1);
      const text = await told.innerText();
      for (const want of ['<img src=x onerror', 'predicted wait', '3m12s', 'a predicted wait below 2m']) assert.ok(text.includes(want), `${want} in ${text}`);
      assert.equal(await told.locator('img').count(), 0);
    }
    assert.equal(await page.evaluate(() => document.activeElement.getAttribute('aria-expanded')), 'true', 'the focus stays on what opened it');
    await page.keyboard.press('Enter');
    await told.waitFor({state: 'detached'});
  }
  await page.done();
});

test('works by keyboard', async () => {
  const page = await open();
  await page.keyboard.press('Tab');
  assert.equal(await page.evaluate(() => document.activeElement.textContent), 'To the content');
  await page.keyboard.press('/');
  assert.equal(await page.evaluate(() => document.activeElement.id), 'filter');
  await page.keyboard.type('pt'); // no shortcuts while typing
  assert.equal(await page.getByRole('searchbox').inputValue(), 'pt');
  await page.keyboard.press('Escape');
  assert.equal(await page.getByRole('searchbox').inputValue(), '');
  await page.keyboard.press('p');
  await page.getByRole('button', {name: /Resume/}).waitFor();
  await page.keyboard.press('t');
  assert.equal(await page.evaluate(() => document.documentElement.dataset.theme), 'light');
  await page.keyboard.press('t');
  assert.equal(await page.evaluate(() => document.documentElement.dataset.theme), 'dark');

  const chart = page.locator('figure', {hasText: 'Decisions per second'});
  await page.waitForTimeout(2500); // a few points to walk over
  await chart.locator('.plot').focus();
  await page.keyboard.press('ArrowLeft');
  await chart.locator('.when', {hasText: /\d\d:\d\d:\d\d/}).waitFor();
  await chart.getByRole('button', {name: 'Table'}).press('Enter');
  assert.ok(await chart.locator('tbody tr').count() > 0);
  await chart.getByRole('button', {name: 'Table'}).press('Enter');
  await chart.locator('canvas').waitFor();
  await page.done();
});

test('a hidden page gives its connection back', async () => {
  const page = await open();
  let streams = 0;
  page.on('request', (r) => { streams += r.url().endsWith('/api/v1/stream') ? 1 : 0; });
  const hide = (hidden) => page.evaluate((h) => {
    Object.defineProperty(document, 'hidden', {value: h, configurable: true});
    document.dispatchEvent(new Event('visibilitychange'));
  }, hidden);
  await hide(true);
  // What had arrived before may still be drawn.
  await page.evaluate(() => new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn))));
  const stopped = await offered(page);
  await page.waitForTimeout(2500);
  assert.equal(await offered(page), stopped);
  await hide(false);
  await page.waitForFunction((n) => Number(document.querySelector('.tile .sub').textContent.replace(/[^0-9]/g, '')) > n, stopped);
  assert.equal(streams, 1);
  await page.done();
});

test('polls where the stream has no place', async () => {
  const page = await open({}, (p) => p.route('**/api/v1/stream', (r) => r.fulfill({status: 503})));
  await page.locator('.connection', {hasText: 'Every 5 s'}).waitFor();
  assert.ok(await offered(page) > 0);
  await page.done(/503/);
});

test('axe finds nothing serious', async () => {
  for (const colorScheme of ['light', 'dark']) {
    // The policy forbids the page what axe needs to get in.
    const page = await open({colorScheme, bypassCSP: true});
    await page.locator('figure').getByRole('button', {name: 'Table'}).first().click();
    await reveal(page);
    await page.evaluate(axe);
    const {violations} = await page.evaluate(() => globalThis.axe.run());
    const found = violations.filter((v) => ['moderate', 'serious', 'critical'].includes(v.impact))
      .map((v) => `${colorScheme}: ${v.id}: ${v.help}: ${v.nodes.slice(0, 3).map((n) => n.html.slice(0, 200)).join(' | ')}`);
    assert.deepEqual(found, []);
    await page.done();
  }
});

test('fits every width in both themes', async () => {
  mkdirSync(join(here, 'shots'), {recursive: true});
  for (const [width, height] of [[390, 844], [1024, 800], [1680, 1050]]) {
    for (const colorScheme of ['light', 'dark']) {
      const page = await open({viewport: {width, height}, colorScheme});
      await page.waitForTimeout(1500);
      const wide = await page.evaluate(() => document.documentElement.scrollWidth);
      assert.ok(wide <= width, `the page is ${wide} wide on a screen of ${width}`);
      await page.screenshot({path: join(here, 'shots', `${width}-${colorScheme}.png`), fullPage: true});
      await page.done();
    }
  }
});

test('survives a restart of the gateway', async () => {
  const page = await open();
  await gateway.stop();
  await page.locator('.banner', {hasText: 'The gateway does not answer'}).waitFor();
  const before = await offered(page);
  gateway = await start(gateway.address);
  await page.locator('.connection', {hasText: 'Live'}).waitFor();
  await page.locator('.banner').waitFor({state: 'detached'});
  assert.ok(await offered(page) < before, 'the counts are those of the new run');
  await page.done(/ERR_CONNECTION_REFUSED|ERR_INCOMPLETE_CHUNKED_ENCODING|ERR_EMPTY_RESPONSE|ERR_CONNECTION_RESET/);
});
