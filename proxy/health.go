package proxy

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"time"
)

// HealthCheck asks each address of an origin for a path, and takes those that
// do not answer with a status from 200 to 399 out of use until they do.
type HealthCheck struct {
	Path    string
	Every   time.Duration
	Timeout time.Duration
}

// Run checks until ctx ends. Changes are logged.
func (h HealthCheck) Run(ctx context.Context, o *Origin, log *slog.Logger) {
	var all sync.WaitGroup
	for _, a := range o.addresses {
		all.Go(func() { h.watch(ctx, a, log) })
	}
	all.Wait()
	for _, a := range o.addresses {
		a.sick.Store(false)
	}
}

func (h HealthCheck) watch(ctx context.Context, a *address, log *slog.Logger) {
	// One connection for each check: a kept one would prove little about the
	// address's readiness to take new ones.
	client := &http.Client{
		Timeout:       h.Timeout,
		Transport:     &http.Transport{TLSClientConfig: a.tls, DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	tick := time.NewTicker(h.Every)
	defer tick.Stop()
	for {
		err := h.check(ctx, client, a)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil && !a.sick.Swap(true):
			why := err.Error()
			a.lastFail.Store(&why)
			log.Warn("an address of the origin failed its health check and is left out", "address", a.name, "error", err)
		case err == nil && a.sick.Swap(false):
			a.lastFail.Store(nil)
			log.Info("an address of the origin is healthy again", "address", a.name)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (h HealthCheck) check(ctx context.Context, client *http.Client, a *address) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, a.url+h.Path, nil)
	if err != nil {
		return err
	}
	req.Header.Set("User-Agent", "sluice-health")
	res, err := client.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	_, _ = io.CopyN(io.Discard, res.Body, 64<<10)
	if res.StatusCode < 200 || res.StatusCode > 399 {
		return fmt.Errorf("GET %s answered %s", h.Path, res.Status)
	}
	return nil
}
