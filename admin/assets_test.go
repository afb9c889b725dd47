package admin

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io/fs"
	"regexp"
	"strings"
	"testing"
)

// What others wrote is what they published, and none of it is unaccounted for.
func TestVendoredFiles(t *testing.T) {
	list, err := fs.ReadFile(assets, "vendor/manifest.json")
	if err != nil {
		t.Fatal(err)
	}
	var manifest []struct{ File, Package, Version, Licence, SHA256 string }
	if err := json.Unmarshal(list, &manifest); err != nil {
		t.Fatal(err)
	}
	listed := map[string]bool{"manifest.json": true}
	for _, m := range manifest {
		listed[m.File] = true
		content, err := fs.ReadFile(assets, "vendor/"+m.File)
		if sum := sha256.Sum256(content); err != nil || hex.EncodeToString(sum[:]) != m.SHA256 {
			t.Errorf("%s is not the file of %s %s: %v, SHA-256 %x", m.File, m.Package, m.Version, err, sum)
		}
		if !listed["LICENSE."+m.Package] {
			if _, err := fs.Stat(assets, "vendor/LICENSE."+m.Package); err != nil {
				t.Errorf("the licence of %s is missing", m.Package)
			}
		}
	}
	files, err := fs.ReadDir(assets, "vendor")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if !listed[f.Name()] {
			t.Errorf("vendor/%s is not in the manifest", f.Name())
		}
	}
}

// The page works offline and within its own policy: every file it names is
// embedded, and nothing is inline or from elsewhere.
func TestPageIsSelfContained(t *testing.T) {
	page, err := fs.ReadFile(assets, "index.html")
	if err != nil {
		t.Fatal(err)
	}
	if regexp.MustCompile(`(?i)<style|style=|\son\w+=|<script(?: [^>]*)?>[^<]`).Match(page) {
		t.Error("the page has inline script or style")
	}
	own := regexp.MustCompile(`(?:src|href)=["'](/assets/[^"']+)|from '(\./[^']+)'|import '(\./[^']+)'`)
	var check func(name string, seen map[string]bool)
	check = func(name string, seen map[string]bool) {
		if seen[name] {
			return
		}
		seen[name] = true
		content, err := fs.ReadFile(assets, name)
		if err != nil {
			t.Errorf("%s is not embedded", name)
			return
		}
		if strings.HasPrefix(name, "vendor/") {
			return
		}
		if strings.Contains(string(content), "https://") || regexp.MustCompile(`http://[^w]`).Match(content) {
			t.Errorf("%s refers to another host", name)
		}
		for _, m := range own.FindAllStringSubmatch(string(content), -1) {
			check(strings.TrimPrefix(strings.TrimPrefix(m[1]+m[2]+m[3], "/assets/"), "./"), seen)
		}
	}
	seen := map[string]bool{}
	check("index.html", seen)
	if !seen["vendor/uPlot.esm.js"] || !seen["tail.js"] {
		t.Errorf("the walk over the page's files missed some: %v", seen)
	}
}

func TestPagePolicy(t *testing.T) {
	ts := start(t, nil)
	res, _ := ts.do(t, "GET", "/")
	if got := res.Header.Get("Content-Security-Policy"); got != pagePolicy || strings.Contains(got, "unsafe") {
		t.Errorf("policy of the page: %q", got)
	}
	if res, _ := ts.do(t, "GET", "/status"); !strings.HasPrefix(res.Header.Get("Content-Security-Policy"), "default-src 'none'") {
		t.Errorf("policy of other answers: %q", res.Header.Get("Content-Security-Policy"))
	}
}
