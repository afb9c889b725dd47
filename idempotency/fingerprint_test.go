package idempotency

import (
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
)

// lines is a header for tests.
type lines map[string][]string

func (l lines) PeekAll(name string) [][]byte {
	var out [][]byte
	for k, vs := range l {
		if strings.EqualFold(k, name) {
			for _, v := range vs {
				out = append(out, []byte(v))
			}
		}
	}
	return out
}

func mustFingerprinter(t testing.TB, o FingerprintOptions) *Fingerprinter {
	t.Helper()
	f, err := NewFingerprinter(o)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestEveryPartOfARequestCounts(t *testing.T) {
	f := mustFingerprinter(t, FingerprintOptions{Headers: []string{"X-Shop"}})
	seen := map[Fingerprint]string{}
	for name, sum := range map[string]Fingerprint{
		"plain":              f.Sum("POST", "/a", "q=1", lines{}, []byte("body")),
		"method":             f.Sum("PUT", "/a", "q=1", lines{}, []byte("body")),
		"path":               f.Sum("POST", "/b", "q=1", lines{}, []byte("body")),
		"query":              f.Sum("POST", "/a", "q=2", lines{}, []byte("body")),
		"path into query":    f.Sum("POST", "/aq", "=1", lines{}, []byte("body")),
		"query into body":    f.Sum("POST", "/a", "", lines{}, []byte("q=1body")),
		"body":               f.Sum("POST", "/a", "q=1", lines{}, []byte("Body")),
		"no body":            f.Sum("POST", "/a", "q=1", lines{}, nil),
		"type":               f.Sum("POST", "/a", "q=1", lines{"Content-Type": {"text/plain"}}, []byte("body")),
		"coding":             f.Sum("POST", "/a", "q=1", lines{"Content-Encoding": {"gzip"}}, []byte("body")),
		"header":             f.Sum("POST", "/a", "q=1", lines{"X-Shop": {"1"}}, []byte("body")),
		"empty header":       f.Sum("POST", "/a", "q=1", lines{"X-Shop": {""}}, []byte("body")),
		"header twice":       f.Sum("POST", "/a", "q=1", lines{"X-Shop": {"1", "1"}}, []byte("body")),
		"header second line": f.Sum("POST", "/a", "q=1", lines{"X-Shop": {"1", "2"}}, []byte("body")),
		"header moved":       f.Sum("POST", "/a", "q=1", lines{"X-Shop": {"11"}}, []byte("body")),
	} {
		if other, ok := seen[sum]; ok {
			t.Errorf("%q and %q are the same request", name, other)
		}
		seen[sum] = name
	}
	if f.Sum("POST", "/a", "q=1", lines{"X-Trace": {"1"}}, []byte("body")) != f.Sum("POST", "/a", "q=1", lines{"x-trace": {"2"}}, []byte("body")) {
		t.Error("a header that is not configured counts")
	}
}

func TestAStreamedBodyHasTheSameFingerprint(t *testing.T) {
	for _, o := range []FingerprintOptions{{}, {JSON: true}} {
		f := mustFingerprinter(t, o)
		body := []byte(`{"a": 1, "b": [true, null]}`)
		want := f.Sum("POST", "/", "", lines{}, body)
		b := f.Begin("POST", "/", "", lines{})
		for len(body) > 0 {
			n := min(1+rand.IntN(5), len(body))
			b.Write(body[:n])
			body = body[n:]
		}
		if got := b.Sum(); got != want {
			t.Errorf("%+v: in pieces %x, in one %x", o, got, want)
		}
	}
}

func TestJSONBodiesAreComparedByContent(t *testing.T) {
	f := mustFingerprinter(t, FingerprintOptions{JSON: true, Ignore: []string{"/sent_at", "/meta/trace", "/a~1b"}})
	sum := func(body string) Fingerprint { return f.Sum("POST", "/", "", lines{}, []byte(body)) }
	base := `{"id":7,"name":"x","meta":{"trace":"t","v":[1,2]},"sent_at":1}`
	for _, same := range []string{
		` { "name" : "x" , "id" : 7, "meta": {"v":[1, 2], "trace": 5}, "sent_at": {"deep": []} } `,
		`{"id":7,"n\u0061me":"\u0078","meta":{"v":[1,2]}}`,
		`{"id":7,"name":"x","meta":{"v":[1,2]},"a/b":"left out"}`,
	} {
		if sum(same) != sum(base) {
			t.Errorf("differs: %s", same)
		}
	}
	for _, other := range []string{
		`{"id":7.0,"name":"x","meta":{"trace":"t","v":[1,2]}}`, // numbers are compared as written
		`{"id":"7","name":"x","meta":{"trace":"t","v":[1,2]}}`,
		`{"id":7,"name":"x","meta":{"trace":"t","v":[2,1]}}`,
		`{"id":7,"name":"x","meta":{"trace":"t","v":[[1,2]]}}`,
		`{"id":7,"name":"x","meta":[{"trace":"t","v":[1,2]}]}`,
		`{"id":7,"id":7,"name":"x","meta":{"trace":"t","v":[1,2]}}`, // which one counts is not ours to say
		`{"id":7,"name":"x","meta":{"v":[1,2]},"extra":null}`,
		`{"id":7,"name":"x","meta":{"trace":"t","v":[1,2]},"sent_at":1`,
	} {
		if sum(other) == sum(base) {
			t.Errorf("the same: %s", other)
		}
	}
	for _, pair := range [][2]string{
		{"{\"a\":\"\xff\"}", "{\"a\":\"\xfe\"}"},
		{`{"a":"\ud800"}`, `{"a":"\udfff"}`},
		{`{"a":1,"a":2}`, `{"a":2,"a":1}`},
		{strings.Repeat("[", 500) + strings.Repeat("]", 500), strings.Repeat("[", 500) + " " + strings.Repeat("]", 500)},
	} {
		if sum(pair[0]) == sum(pair[1]) {
			t.Errorf("cannot be told to be equal: %q and %q", pair[0][:10], pair[1][:10])
		}
	}
}

func TestIgnoredFieldsAreChecked(t *testing.T) {
	for _, o := range []FingerprintOptions{
		{Ignore: []string{"/a"}}, {JSON: true, Ignore: []string{"a"}}, {JSON: true, Ignore: []string{""}},
	} {
		if _, err := NewFingerprinter(o); err == nil {
			t.Errorf("%+v is accepted", o)
		}
	}
	for _, order := range [][]string{{"/a", "/a/b"}, {"/a/b", "/a"}} {
		f := mustFingerprinter(t, FingerprintOptions{JSON: true, Ignore: order})
		if f.Sum("", "", "", lines{}, []byte(`{"a":{"b":1,"c":2}}`)) != f.Sum("", "", "", lines{}, []byte(`{"a":3}`)) {
			t.Errorf("%v does not leave out all of a", order)
		}
	}
}

// Canonical bytes are equal exactly if the decoded values are: checked with the
// standard decoder, which shares no code with the canonicalizer.
func FuzzCanonicalJSON(f *testing.F) {
	f.Add([]byte(`{"b":[1,2],"a":"x"}`), []byte(`{"a":"x","b":[1,2]}`))
	f.Add([]byte(`"\u00e4"`), []byte(`"ä"`))
	f.Add([]byte(`[[],{},null,true]`), []byte(`[[{}],null,true]`))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		x, okX := canonicalJSON(a, nil)
		y, okY := canonicalJSON(b, nil)
		if !okX || !okY {
			return
		}
		if same, want := string(x) == string(y), reflect.DeepEqual(decoded(t, a), decoded(t, b)); same != want {
			t.Fatalf("%s and %s: equal %v, want %v", a, b, same, want)
		}
	})
}

func decoded(t *testing.T, b []byte) any {
	d := json.NewDecoder(strings.NewReader(string(b)))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%s: %v", b, err)
	}
	return v
}
