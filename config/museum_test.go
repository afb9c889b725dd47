package config

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// environment is what ${env:…} finds in the files of testdata.
var environment = map[string]string{
	"LISTEN":      "127.0.0.1:0",
	"ORIGIN_PORT": "3001",
	"TIMEOUT":     "7s",
	"DOLLARS":     "$$6",
	"SECRET":      "hunter2",
	"CLASS":       "hunter2",
	"KEY_HASH":    "hunter2",
	"KEY_HASH_OK": strings.Repeat("ab", 32),
}

func testLoader() Loader {
	return Loader{LookupEnv: func(name string) (string, bool) {
		value, ok := environment[name]
		return value, ok
	}}
}

// compareGolden compares got with the text of a file, or writes it.
func compareGolden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(string(read(t, file)), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", file, diff)
	}
}

func TestEveryMistakeIsReportedInExactlyTheseWords(t *testing.T) {
	files := glob(t, "testdata/bad/*.yaml")
	if len(files) < 40 {
		t.Errorf("there are %d bad files only", len(files))
	}
	for _, file := range files {
		c, err := testLoader().Load(file)
		if err == nil || c != nil {
			t.Errorf("%s loads", file)
			continue
		}
		if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: a value that was substituted is shown:\n%v", file, err)
		}
		compareGolden(t, strings.TrimSuffix(file, ".yaml")+".txt", err.Error()+"\n")
	}
}

func TestGoodFilesLoadWithExactlyTheseWarnings(t *testing.T) {
	for _, file := range glob(t, "testdata/good/*.yaml") {
		c, err := testLoader().Load(file)
		if err != nil {
			t.Errorf("%s:\n%v", file, err)
			continue
		}
		expected := strings.TrimSuffix(file, ".yaml") + ".warnings"
		if _, err := os.Stat(expected); err != nil && len(c.Source.Warnings) == 0 {
			continue
		}
		compareGolden(t, expected, c.Source.Warnings.Error()+"\n")
	}
}

func TestFilesThatCannotBeReadAreProblemsToo(t *testing.T) {
	for path, want := range map[string]string{
		"testdata/no-such-file.yaml": "testdata/no-such-file.yaml:1:1: the file cannot be read: no such file or directory",
		"testdata":                   "testdata:1:1: the file cannot be read: it is a folder; name the file in it",
	} {
		_, err := Load(path)
		var problems Problems
		if !errors.As(err, &problems) || err.Error() != want {
			t.Errorf("Load(%q) = %v, want %s", path, err, want)
		}
	}
}
