// Tests of what needs no browser: how numbers are written, and the filter.
import {test} from 'node:test';
import assert from 'node:assert/strict';
import {ago, percent, seconds, secondsBriefly, short, span} from '../format.js';
import {matcher} from '../filter.js';

test('numbers fit their place and keep their meaning', () => {
  const cases = [
    [short, [[0, '0'], [0.04, '<0.1'], [0.3, '0.3'], [7, '7'], [9.96, '10'], [1234, '1,234'], [12345, '12.3k'], [123456, '123k'], [2.5e6, '2.5M'], [null, '–']]],
    [seconds, [[0, '0 s'], [5.5e-6, '5.5 µs'], [137e-6, '137 µs'], [0.0013, '1.3 ms'], [0.087, '87 ms'], [1.5, '1.5 s'], [90, '90 s'], [162, '2 min 42 s'], [null, '–']]],
    [secondsBriefly, [[90, '90 s'], [150, '2.5 min'], [7200, '2 h'], [86400 * 3, '3 d']]],
    [span, [[0, '0 s'], [59, '59 s'], [60, '1 min'], [3720, '1 h 2 min'], [90000, '1 d 1 h']]],
    [percent, [[0, '0%'], [0.0004, '<0.1%'], [0.093, '9.3%'], [0.5, '50%'], [0.9996, '>99.9%'], [1, '100%'], [NaN, '–']]],
  ];
  for (const [f, list] of cases) {
    for (const [value, want] of list) assert.equal(f(value), want, `${f.name}(${value})`);
  }
  const now = Date.parse('2026-03-01T12:00:00Z');
  assert.equal(ago('2026-03-01T11:58:30Z', now), '1 min 30 s ago');
  assert.equal(ago('2026-03-01T12:00:05Z', now), 'just now'); // clocks differ
  assert.equal(ago(null, now), 'never');
});

test('a filter means all of its words, in the fields they name', () => {
  const d = {tenant: 'Acme', route: 'create-order', reason: 'tenant_limit', id: 'f00', status: 429};
  for (const [text, want] of [
    ['', true], ['acme', true], ['ACME order', true], ['acme shed', false], ['tenant:acme', true], ['route:acme', false],
    ['tenant:acme reason:limit', true], ['429', true], ['status:42', true], ['id:f0', true], ['nofield:acme', false], ['class:bulk', false], ['tenant:', true],
  ]) assert.equal(matcher(text)(d), want, text);
});
