// Command sampleapi is an API to try Sluice in front of. Each POST is an order:
// it is counted, put on a Redis stream if there is one, and answered with 201.
// With -work it is a worker instead, which does that stream's work.
//
// It takes its time when asked to (?takes=3s), repeats what it was sent
// (/echo), and streams (/events), so that what a gateway does shows.
package main

import (
	"flag"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httputil"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("sampleapi: ")
	listen := flag.String("listen", "127.0.0.1:3000", "`address` to serve the API at")
	redis := flag.String("redis", "", "`address` of a Redis server; none: orders are only counted")
	stream := flag.String("stream", "orders", "`name` of the stream that orders are put on")
	group := flag.String("group", "workers", "`name` of the stream's consumer group")
	work := flag.Float64("work", 0, "be a worker that does this many orders a second")
	flag.Parse()
	if flag.NArg() > 0 {
		log.Fatalf("unexpected argument %q; see -help", flag.Arg(0))
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT)
	go func() {
		<-stop
		os.Exit(0)
	}()

	var q *queue
	if *redis != "" {
		q = &queue{addr: *redis, stream: *stream, group: *group}
	}
	if *work > 0 {
		if q == nil {
			log.Fatal("a worker needs -redis")
		}
		q.work(time.Duration(float64(time.Second) / *work))
	}
	log.Fatal(http.ListenAndServe(*listen, &api{queue: q}))
}

// api is the API. The zero value counts orders.
type api struct {
	queue    *queue // nil: none
	executed atomic.Int64
}

func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if takes, err := time.ParseDuration(r.URL.Query().Get("takes")); err == nil {
		time.Sleep(takes)
	}
	switch {
	case r.Method == http.MethodPost:
		a.order(w, r)
	case r.URL.Path == "/echo":
		head, _ := httputil.DumpRequest(r, false)
		_, _ = w.Write(head)
	case r.URL.Path == "/events":
		events(w, r)
	default:
		fmt.Fprintf(w, "%d orders executed\n", a.executed.Load())
	}
}

func (a *api) order(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	if a.queue != nil {
		if err := a.queue.publish(body); err != nil {
			log.Print(err)
			http.Error(w, "the queue cannot be reached", http.StatusServiceUnavailable)
			return
		}
	}
	n := a.executed.Add(1)
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Location", fmt.Sprintf("%s/%d", r.URL.Path, n))
	w.WriteHeader(http.StatusCreated)
	fmt.Fprintf(w, "{\"order\": %d}\n", n)
}

// events sends an event a second, as server-sent events, until the client goes.
func events(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for n := 1; ; n++ {
		fmt.Fprintf(w, "data: %d\n\n", n)
		if http.NewResponseController(w).Flush() != nil {
			return
		}
		select {
		case <-tick.C:
		case <-r.Context().Done():
			return
		}
	}
}
