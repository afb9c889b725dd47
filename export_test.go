package main

import (
	"os"
	"strings"
	"testing"
)

// The program writes what is shipped, and says what it cannot write.
func TestExport(t *testing.T) {
	for what, shipped := range map[string]string{"grafana": "deploy/grafana/sluice.json", "alerts": "deploy/prometheus/alerts.yaml"} {
		text, err := os.ReadFile(shipped)
		if err != nil {
			t.Fatal(err)
		}
		if code, out, errOut := runProgram(t, "export", what); code != 0 || out != string(text) {
			t.Errorf("export %s: exit %d, not what %s holds\n%s", what, code, shipped, errOut)
		}
	}
	for line, want := range map[string]string{
		"export":                               "say what",
		"export charts":                        "say what",
		"export alerts --acceptance 50%":       "--acceptance: an objective of 50%",
		"export alerts --completion 0.99":      "write 99%",
		"export grafana --completion 100%":     "from 94% to 99.999%",
		"export grafana --runbook https://x/y": "did you mean --runbooks?",
	} {
		if code, _, errOut := runProgram(t, strings.Fields(line)...); code != 2 || !strings.Contains(errOut, want) {
			t.Errorf("sluice %s: exit %d, want 2 and %q in: %s", line, code, want, errOut)
		}
	}
}
