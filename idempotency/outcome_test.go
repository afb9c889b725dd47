package idempotency

import (
	"strings"
	"testing"
	"time"

	"sluice/admission"
)

func TestJudgeTable(t *testing.T) {
	hold, release := &Policy{}, &Policy{OnUnknown: Release}
	for _, o := range []admission.Outcome{admission.NotTried, admission.NotSent} {
		for _, p := range []*Policy{hold, release} {
			if got := Judge(o, 0, false, p); got != Free {
				t.Errorf("%v under %v: %v, want free", o, p.OnUnknown, got)
			}
		}
	}
	if a, b := Judge(admission.Unknown, 0, false, hold), Judge(admission.Unknown, 0, false, release); a != Doubt || b != Free {
		t.Errorf("unknown: %v and %v, want doubt and free", a, b)
	}
	// Every status there is, with and without Retry-After.
	for status := 0; status < 1000; status++ {
		for _, retryAfter := range []bool{false, true} {
			wantHold, wantRelease := Doubt, Free
			switch {
			case status >= 200 && status <= 399:
				wantHold, wantRelease = Keep, Keep
			case strings.Contains(" 401 403 407 408 421 423 425 429 503 ", " "+itoa(status)+" "):
				wantHold, wantRelease = Free, Free
			case status >= 400 && status <= 499 && retryAfter:
				wantHold, wantRelease = Free, Free
			case status >= 400 && status <= 499:
				wantHold, wantRelease = Keep, Keep
			}
			a := Judge(admission.Answered, status, retryAfter, hold)
			b := Judge(admission.Answered, status, retryAfter, release)
			if a != wantHold || b != wantRelease {
				t.Errorf("%d with Retry-After %v: %v under hold and %v under release, want %v and %v", status, retryAfter, a, b, wantHold, wantRelease)
			}
		}
	}
	if got := Judge(admission.Answered, 503, true, &Policy{DoubtUnavailable: true}); got != Doubt {
		t.Errorf("503 where it proves nothing: %v, want doubt", got)
	}
}

func itoa(n int) string {
	return string([]byte{byte('0' + n/100%10), byte('0' + n/10%10), byte('0' + n%10)})
}

func TestPolicyCheckNamesEveryProblem(t *testing.T) {
	good := &Policy{Lease: 12 * time.Second, Retention: DefaultRetention, Wait: DefaultWait, MaxReplay: DefaultMaxReplay, KeepHeaders: []string{"X-Order"}}
	if err := good.Check(); err != nil {
		t.Errorf("a good policy: %v", err)
	}
	bad := &Policy{Lease: time.Hour, Retention: time.Minute, Wait: -1, MaxReplay: -1, KeepHeaders: []string{"set-cookie", "a b"}}
	err := bad.Check()
	if err == nil {
		t.Fatal("a bad policy passes")
	}
	for _, part := range []string{"retention 1m0s", "wait is", "max_replay is", "Set-Cookie", `"a b"`} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("error lacks %q:\n%v", part, err)
		}
	}
}

func TestKeptFields(t *testing.T) {
	header := func(yield func([]byte, []byte) bool) {
		for _, f := range [][2]string{
			{"Content-Type", "text/plain"}, {"Content-Length", "3"}, {"Date", "now"}, {"Link", "<a>"}, {"LINK", "<b>"},
			{"Connection", "close, x-order"}, {"X-Order", "7"}, {"x-trace", "1"}, {"Set-Cookie", "a=b"}, {"retry-after", "1"}, {"ETag", strings.Repeat("e", maxKeptFields)},
		} {
			if !yield([]byte(f[0]), []byte(f[1])) {
				return
			}
		}
	}
	k := keeper{extra: []string{"X-Order", "X-Trace"}}
	k.keep(header)
	got := k.kept
	want := []Field{{Name: "Content-Type", Value: "text/plain"}, {Name: "Link", Value: "<a>"}, {Name: "Link", Value: "<b>"}, {Name: "X-Trace", Value: "1"}}
	if !k.retryAfter {
		t.Error("Retry-After was not seen")
	}
	if len(got) != len(want) {
		t.Fatalf("kept %v, want %v", got, want)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("kept %v, want %v", got[i], want[i])
		}
	}
}
