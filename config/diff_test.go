package config

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func change(path, before, after string, restart bool) Change {
	return Change{Path: path, Old: before, New: after, Restart: restart}
}

func TestDiffNamesEachChangeAndWhetherItNeedsARestart(t *testing.T) {
	const before = `version: 1
origin: {url: http://127.0.0.1:3000}
tenants:
  from: [{header: X-Tenant-Id}]
  limit: {rate: 60/m, burst: 10}
  overrides:
    acme: {burst: 20}
    gone: {burst: 5}
priority:
  - {id: a, when: {method: GET}, class: bulk}
  - {id: b, when: {method: POST}, class: bulk}
routes:
  - {id: orders, match: {path: /v1/orders}, class: bulk}
  - {id: items, match: {path: /v1/items}, class: bulk}
`
	const after = `version: 1
listen: 127.0.0.1:8081
origin: {urls: [http://127.0.0.1:3000, http://127.0.0.1:3001]}
tls: {cert: /a.crt, key: /a.key}
tenants:
  from: [{header: X-Tenant-Id}]
  limit: {rate: 1/s, burst: 10}
  overrides:
    acme: {burst: 30}
    new: {mode: shadow}
  max_tracked: 5000
priority:
  - {id: b, when: {method: POST}, class: bulk}
  - {id: a, when: {method: GET}, class: bulk}
routes:
  - {id: added, match: {method: GET, path: /v1/added}, class: bulk}
  - {id: orders, match: {path: /v1/orders}, class: critical, limit: {rate: 1/s, burst: 1}}
`
	got := Diff(parse(t, before), parse(t, after))
	want := []Change{
		change("listen", "127.0.0.1:8080", "127.0.0.1:8081", true),
		change("tls", "", "{cert: /a.crt, key: /a.key, client_auth: none, min_version: \"1.2\"}", true),
		change("origin.urls", "['http://127.0.0.1:3000']", "['http://127.0.0.1:3000', 'http://127.0.0.1:3001']", false),
		change("tenants.overrides.acme.burst", "20", "30", false),
		change("tenants.overrides.gone", "{rate: 1/s, burst: 5, mode: enforce}", "", false),
		change("tenants.overrides.new", "", "{rate: 1/s, burst: 10, mode: shadow}", false),
		change("tenants.max_tracked", "100000", "5000", false),
		change("priority", "order a, b", "order b, a", false),
		change("routes[orders].class", "bulk", "critical", false),
		change("routes[orders].limit", "", "{rate: 1/s, burst: 1, mode: enforce}", false),
		change("routes[items]", "{id: items, match: {path: /v1/items}, class: bulk, cost: 1, mode: enforce, stream: false, upgrade: false, max_body: 1MiB, timeout: 10s, body_timeout: 30s, max_response: 32MiB}", "", false),
		change("routes[added]", "", "{id: added, match: {methods: [GET], path: /v1/added}, class: bulk, cost: 1, mode: enforce, stream: false, upgrade: false, max_body: 1MiB, timeout: 10s, body_timeout: 30s, max_response: 32MiB}", false),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if same := Diff(parse(t, after), parse(t, after)); len(same) > 0 {
		t.Errorf("the same text differs: %v", same)
	}
}

func TestChangedCertificateNeedsNoRestart(t *testing.T) {
	got := Diff(parse(t, base+"tls: {cert: /a.crt, key: /a.key}\n"), parse(t, base+"tls: {cert: /b.crt, key: /a.key, min_version: \"1.3\"}\n"))
	want := []Change{change("tls.cert", "/a.crt", "/b.crt", false), change("tls.min_version", "1.2", "1.3", false)}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
