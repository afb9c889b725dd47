package main

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// library says which of our packages may import a library, and why no other.
var libraries = []struct {
	path    string
	only    []string // packages, or folders when they end in /
	because string
}{
	{"github.com/valyala/fasthttp", []string{"proxy", "bench/"}, "whatever decides about a request must not touch the transport's memory"},
	{"github.com/redis/go-redis/v9", []string{"idempotency", "idempotency/", "shedding/signals", "shedding/signals/", "bench/", "internal/"}, "a store is behind its contract, a signal behind its reader"},
	{"github.com/prometheus/client_golang", []string{"admin"}, "what is counted must not know who reads it"},
	{"charm.land/bubbletea/v2", []string{"rehearse/command"}, "only top draws on a terminal"},
	{"gopkg.in/yaml.v3", []string{"config/"}, "there is one strict reader of YAML"},
}

// ours says which of our packages a package may import besides those below its
// own folder. Imports run one way, so that each part can be read by itself.
var ours = []struct {
	pkg, because string
	may          []string
}{
	{"admission", "the words stand on nothing", nil},
	{"admission/ratelimit", "a gate knows the words only", []string{"admission", "internal/prefetch", "internal/hugepage"}},
	{"admission/tenant", "identity knows the words only", []string{"admission"}},
	{"config", "what a file says does not depend on who uses it", nil},
	{"proxy", "gates and transport meet in the controller", []string{"admission", "admission/tenant", "internal/nowait"}},
	{"priority", "parts do not know each other", []string{"admission"}},
	{"idempotency", "parts do not know each other", []string{"admission", "internal/nowait"}},
	{"shedding", "parts do not know each other", []string{"admission", "internal/prefetch"}},
	{"admin", "operators' view knows the words only", []string{"admission"}},
	{"rehearse", "a rehearsal is a gateway's own wiring, and looks into its gates to tell why", []string{"gateway", "admin", "config", "config/", "admission", "admission/", "priority", "shedding", "idempotency"}},
	{"bench", "the harness drives the real program from outside", []string{"config/strict", "config/value", "internal/"}},
}

func TestImports(t *testing.T) {
	out, err := exec.Command("go", "list", "-json=ImportPath,Imports,Standard", "./...").Output()
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p struct {
			ImportPath string
			Imports    []string
		}
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		seen++
		pkg := strings.TrimPrefix(p.ImportPath, "sluice/")
		for _, imported := range p.Imports {
			checkLibrary(t, pkg, imported)
			if inside, ok := strings.CutPrefix(imported, "sluice/"); ok {
				checkOurs(t, pkg, inside)
			} else if pkg == "admission" && strings.Contains(imported, ".") {
				t.Errorf("admission imports %s: it stands on the standard library alone", imported)
			}
		}
	}
	if seen < 10 {
		t.Fatalf("only %d packages were looked at", seen)
	}
}

func checkLibrary(t *testing.T, pkg, imported string) {
	for _, l := range libraries {
		if imported != l.path && !strings.HasPrefix(imported, l.path+"/") {
			continue
		}
		if !slices.ContainsFunc(l.only, func(allowed string) bool { return covers(allowed, pkg) }) {
			t.Errorf("%s imports %s, which is for %s: %s", pkg, imported, strings.Join(l.only, ", "), l.because)
		}
	}
}

func checkOurs(t *testing.T, pkg, imported string) {
	for _, o := range ours {
		if pkg != o.pkg && !strings.HasPrefix(pkg, o.pkg+"/") || o.pkg == "admission" && pkg != o.pkg {
			continue
		}
		if imported == o.pkg || strings.HasPrefix(imported, o.pkg+"/") {
			continue
		}
		if !slices.ContainsFunc(o.may, func(allowed string) bool { return covers(allowed, imported) }) {
			t.Errorf("%s imports %s, and may import %v of ours: %s", pkg, imported, o.may, o.because)
		}
	}
}

// covers reports whether allowed, a package or a folder with a slash behind it,
// covers pkg.
func covers(allowed, pkg string) bool {
	return allowed == pkg || strings.HasSuffix(allowed, "/") && strings.HasPrefix(pkg, allowed)
}
