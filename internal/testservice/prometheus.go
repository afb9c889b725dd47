package testservice

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"
)

// Prometheus is a running server.
type Prometheus struct {
	*process
	URL string
}

// StartPrometheus starts a server that scrapes target, a host and port, every
// 200 ms, and evaluates the rules in files as often.
func StartPrometheus(t testing.TB, target string, files ...string) *Prometheus {
	t.Helper()
	server := program(t, "prometheus", "install it (Debian, Ubuntu: apt-get install prometheus)")
	dir, port := folder(t, ""), FreePort(t)
	config := filepath.Join(dir, "prometheus.yml")
	text := fmt.Sprintf("global: {scrape_interval: 200ms, scrape_timeout: 200ms, evaluation_interval: 200ms}\nscrape_configs:\n- {job_name: queue, static_configs: [{targets: [%q]}]}\n", target)
	for i, file := range files {
		path, err := filepath.Abs(file)
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			text += "rule_files:\n"
		}
		text += fmt.Sprintf("- %q\n", path)
	}
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	p := &Prometheus{URL: "http://127.0.0.1:" + port}
	p.process = launch(t, dir, "", nil, server,
		"--config.file="+config, "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address=127.0.0.1:"+port)
	p.await("become ready", func() error {
		res, err := http.Get(p.URL + "/-/ready")
		if err != nil {
			return err
		}
		res.Body.Close()
		if res.StatusCode != http.StatusOK {
			return fmt.Errorf("status %d", res.StatusCode)
		}
		return nil
	})
	return p
}
