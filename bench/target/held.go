package target

import (
	"context"
	"fmt"
	"io"
	"net/http"
)

// Held is what a gateway holds at one time.
type Held struct {
	Memory      int64 `json:"memory"` // bytes resident
	Heap        int64 `json:"heap"`   // bytes of Go's heap, garbage included
	Goroutines  int64 `json:"goroutines"`
	Descriptors int64 `json:"descriptors"` // open files and connections
}

// ReadHeld asks an admin listener for what the gateway holds.
func ReadHeld(ctx context.Context, admin string) (*Held, error) {
	var h *Held
	err := scrape(ctx, admin, func(r io.Reader) (err error) {
		h, err = parseHeld(r)
		return err
	})
	return h, err
}

func parseHeld(r io.Reader) (*Held, error) {
	var h Held
	fields := map[string]*int64{
		"process_resident_memory_bytes": &h.Memory, "go_memstats_heap_alloc_bytes": &h.Heap,
		"go_goroutines": &h.Goroutines, "process_open_fds": &h.Descriptors,
	}
	found := 0
	err := samples(r, func(name string, _ map[string]string, v float64) {
		if fields[name] != nil {
			*fields[name] = int64(v)
			found++
		}
	})
	if err != nil {
		return nil, err
	}
	if found != len(fields) {
		return nil, fmt.Errorf("target: the metrics tell %d of the %d figures about what the gateway holds", found, len(fields))
	}
	return &h, nil
}

// scrape hands the metrics of an admin listener to read.
func scrape(ctx context.Context, admin string, read func(io.Reader) error) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, admin+"/metrics", nil)
	if err != nil {
		return fmt.Errorf("target: %w", err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("target: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("target: %s/metrics answers %s", admin, resp.Status)
	}
	return read(resp.Body)
}
