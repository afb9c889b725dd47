package gateway

import (
	"context"
	"crypto/sha256"
	"errors"
	"os"
	"slices"
	"time"

	"sluice/admin"
	"sluice/config"
)

// Triggers of a reload, besides admin's own.
const (
	TriggerSignal = "signal"
	triggerFile   = "file"
)

// reloadError is a reload that failed and changed nothing.
type reloadError struct{ error }

// Problems lists what is wrong, one by one.
func (e reloadError) Problems() []string {
	var problems config.Problems
	if !errors.As(e.error, &problems) {
		return []string{e.Error()}
	}
	list := make([]string, len(problems))
	for i, p := range problems {
		list[i] = p.Error()
	}
	return list
}

func (e reloadError) Unwrap() error { return e.error }

// Reload loads the configuration again and puts it in force. An error means
// that nothing has changed.
func (g *Gateway) Reload(_ context.Context, trigger string) (admin.ReloadReport, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.file != nil {
		// Whoever rotates the decision log moves it away and sends SIGHUP.
		if err := g.file.Reopen(); err != nil {
			g.log.Error("the decision log cannot be opened anew; the file open so far stays in use", "error", err)
		}
	}
	was := g.current.Load()
	now := time.Now()
	cfg, err := g.opts.Load()
	var p *prepared
	if err == nil {
		p, err = prepare(cfg, was.prepared)
	}
	if err != nil {
		failed := *was
		failed.failure = err.Error()
		g.current.Store(&failed)
		g.metrics.ConfigLoaded(admin.ReloadRecord{At: now, Trigger: trigger, Error: err.Error()})
		g.log.Error("the new configuration is not in force: it is wrong; the one before stays", "trigger", trigger, "error", err)
		return admin.ReloadReport{}, reloadError{err}
	}

	report := admin.ReloadReport{Hash: cfg.Source.Hash}
	for _, c := range config.Diff(was.cfg, cfg) {
		report.Changed = append(report.Changed, c.Path)
	}
	for _, c := range config.Diff(g.first, cfg) {
		if c.Restart {
			report.RestartPending = append(report.RestartPending, c.Path)
		}
	}

	// From here on nothing can fail.
	buckets, err := g.buckets.Reconfigure(p.buckets, now)
	if err != nil {
		panic("options that were valid are not: " + err.Error())
	}
	report.BucketsKept, report.BucketsRescaled = buckets.Kept, buckets.Rescaled
	p.attach(g)
	next := &running{prepared: p, loaded: now, pending: report.RestartPending}
	if was.candidate != nil {
		next.candidate = g.nextCandidate(p, was.candidate, now)
		next.candidate.beside(p, g)
		report.CandidateHash, report.CandidateError = next.candidate.cfg.Source.Hash, next.candidate.failure
		g.metrics.CandidateLoaded(report.CandidateHash)
	}
	if g.certs != nil && p.tls != nil {
		g.certs.store(p.tls)
	}
	if g.adminTLS != nil && p.adminTLS != nil {
		g.adminTLS.store(p.adminTLS)
	}
	g.server.SetLimits(p.limits)
	g.observer.SetPolicy(p.names)
	p.queues.keepers = g.keepers()
	g.current.Store(next)
	g.server.SetPolicy(p.policy)
	if g.reading {
		was.stopReading()
		next.read()
	} else {
		was.closeReaders()
	}
	if p.policy.Origin != was.policy.Origin {
		was.policy.Origin.Close()
	}
	g.metrics.ConfigLoaded(admin.ReloadRecord{At: now, Trigger: trigger, Hash: cfg.Source.Hash, Changed: report.Changed})
	g.log.Info("reloaded", "trigger", trigger, "hash", cfg.Source.Hash, "changed", report.Changed,
		"buckets_kept", buckets.Kept, "buckets_rescaled", buckets.Rescaled)
	if len(report.RestartPending) > 0 {
		g.log.Warn("some changed settings take effect at the next start only", "settings", report.RestartPending)
	}
	for _, w := range cfg.Source.Warnings {
		g.log.Warn("the configuration may not mean what it says", "where", w.Error())
	}
	return report, nil
}

// watch reloads when the content of a file that the configuration consists of
// has changed. It compares content, not times or inodes: a mounted ConfigMap
// changes by a swapped symlink. seen is what was there when the configuration in
// force was loaded.
func (g *Gateway) watch(ctx context.Context, seen [sha256.Size]byte) {
	if g.opts.Path == "" && g.opts.CandidatePath == "" {
		return
	}
	for {
		every := time.Duration(g.current.Load().cfg.Reload.Watch)
		if every <= 0 {
			every = time.Minute // it may be switched on by another reload
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(every):
		}
		if g.current.Load().cfg.Reload.Watch <= 0 {
			continue
		}
		if now := fingerprint(g.files()); now != seen && g.settled(ctx, now) {
			of := g.files()
			_, _ = g.Reload(ctx, triggerFile)
			if seen = now; !slices.Equal(of, g.files()) {
				seen = fingerprint(g.files())
			}
		}
	}
}

// settled waits a moment and reports whether the files are still the same: one
// that is being written must not be read halfway.
func (g *Gateway) settled(ctx context.Context, now [sha256.Size]byte) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(50 * time.Millisecond):
	}
	return fingerprint(g.files()) == now
}

// files are those that the running configuration consists of.
func (g *Gateway) files() []string {
	now := g.current.Load()
	cfg := now.cfg
	files := append([]string{g.opts.Path, g.opts.CandidatePath}, cfg.Source.Files...)
	if now.candidate != nil {
		files = append(files, now.candidate.cfg.Source.Files...)
	}
	if t := cfg.TLS; t != nil {
		files = append(files, string(t.Cert), string(t.Key), string(t.ClientCA))
	}
	if t := cfg.Admin.TLS; t != nil {
		files = append(files, string(t.Cert), string(t.Key), string(t.ClientCA))
	}
	if t := cfg.Origin.TLS; t != nil {
		files = append(files, string(t.CA), string(t.Cert), string(t.Key))
	}
	return files
}

// fingerprint identifies the content of files. One that cannot be read counts
// by its absence.
func fingerprint(files []string) (sum [sha256.Size]byte) {
	h := sha256.New()
	for _, f := range files {
		if f == "" {
			continue
		}
		data, err := os.ReadFile(f)
		content := sha256.Sum256(data)
		h.Write([]byte(f))
		h.Write(content[:])
		if err != nil {
			h.Write([]byte{1})
		}
	}
	return [sha256.Size]byte(h.Sum(nil))
}
