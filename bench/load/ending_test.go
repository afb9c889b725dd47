package load

import (
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"sluice/bench/wire"
)

func TestEndingsAreToldApart(t *testing.T) {
	problem := func(reason string) string {
		return `{"type":"urn:x","title":"the \"reason\" is below","status":1,"reason" : "` + reason + `"}`
	}
	for _, c := range []struct {
		name   string
		status int
		header map[string]string
		body   string
		want   answer
	}{
		{"accepted", 202, nil, `{"accepted":1}`, answer{ending: Admitted}},
		{"replayed", 202, map[string]string{"Idempotent-Replayed": "true"}, "", answer{ending: Replayed}},
		{"shed", 503, map[string]string{"Retry-After": "7", "Sluice-Ticket": "t"}, `{"reason":"shed"}`, answer{Refused, "shed", 7 * time.Second, "t"}},
		{"the member behind a title that quotes its name", 429, nil, problem("tenant_limit"), answer{ending: Refused, reason: "tenant_limit"}},
		{"key", 422, nil, `{"reason":"key_reused"}`, answer{ending: Conflicted, reason: "key_reused"}},
		{"origin did not answer", 502, nil, `{"reason":"origin_failed"}`, answer{ending: Failed, reason: "origin_failed"}},
		{"another proxy's refusal", 503, nil, "<html>", answer{ending: Refused, reason: "http_503"}},
		{"the origin's own error", 503, map[string]string{wire.Origin: "1"}, `{"error":"x"}`, answer{ending: Failed, reason: "origin_503"}},
		{"another proxy's error", 502, nil, "", answer{ending: Failed, reason: "http_502"}},
		{"a date in place of seconds", 503, map[string]string{"Retry-After": "Fri, 31 Dec 1999 23:59:59 GMT"}, "", answer{ending: Refused, reason: "http_503"}},
	} {
		var resp fasthttp.Response
		resp.SetStatusCode(c.status)
		for k, v := range c.header {
			resp.Header.Set(k, v)
		}
		resp.SetBodyString(c.body)
		if got := read(&resp); got != c.want {
			t.Errorf("%s: read as %+v, wanted %+v", c.name, got, c.want)
		}
	}
}
