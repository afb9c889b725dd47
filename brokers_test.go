package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/bits"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/redis/go-redis/v9"

	"sluice/internal/testredis"
	"sluice/internal/testservice"
)

// broker is a real queue. publish adds work; take does one piece of it, if any
// waits. Each is used by one goroutine at a time.
type broker struct {
	signal  string // of the gateway's configuration
	publish func(ctx context.Context) error
	take    func(ctx context.Context) error
}

func redisStream(t *testing.T) broker {
	addr := testredis.Start(t).Addr
	c := redis.NewClient(&redis.Options{Addr: addr})
	t.Cleanup(func() { c.Close() })
	if err := c.XGroupCreateMkStream(t.Context(), "work", "workers", "$").Err(); err != nil {
		t.Fatal(err)
	}
	return broker{
		signal: `redis_stream: {url: "redis://` + addr + `/0", stream: work, group: workers}`,
		publish: func(ctx context.Context) error {
			return c.XAdd(ctx, &redis.XAddArgs{Stream: "work", Values: []string{"a", "b"}}).Err()
		},
		take: func(ctx context.Context) error {
			got, err := c.XReadGroup(ctx, &redis.XReadGroupArgs{Group: "workers", Consumer: "w", Streams: []string{"work", ">"}, Count: 1, Block: -1}).Result()
			if err == redis.Nil {
				return nil
			}
			if err != nil {
				return err
			}
			return c.XAck(ctx, "work", "workers", got[0].Messages[0].ID).Err()
		},
	}
}

func sidekiqList(t *testing.T) broker {
	server := testredis.Start(t)
	server.Must("SADD", "queues", "default")
	addr := server.Addr
	c := redis.NewClient(&redis.Options{Addr: addr})
	t.Cleanup(func() { c.Close() })
	return broker{
		signal: `redis_list: {url: "redis://` + addr + `/0", kind: sidekiq, queue: default}`,
		publish: func(ctx context.Context) error {
			job, _ := json.Marshal(map[string]any{"class": "Job", "jid": "x", "enqueued_at": float64(time.Now().UnixMicro()) / 1e6})
			return c.LPush(ctx, "queue:default", job).Err()
		},
		take: func(ctx context.Context) error {
			if err := c.RPop(ctx, "queue:default").Err(); err != nil && err != redis.Nil {
				return err
			}
			return nil
		},
	}
}

func sqlTable(t *testing.T) broker {
	server := testservice.StartPostgreSQL(t)
	server.Exec(`CREATE TABLE outbox (id bigserial PRIMARY KEY, created_at timestamptz NOT NULL DEFAULT now(), processed_at timestamptz)`,
		`CREATE INDEX ON outbox (created_at) WHERE processed_at IS NULL`)
	connect := func() *pgx.Conn {
		c, err := pgx.Connect(t.Context(), server.URL)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close(context.Background()) })
		return c
	}
	in, out := connect(), connect()
	return broker{
		signal: `sql: {url: "` + server.URL + `", table: outbox, waiting: processed_at IS NULL, due: created_at}`,
		publish: func(ctx context.Context) error {
			_, err := in.Exec(ctx, `INSERT INTO outbox DEFAULT VALUES`)
			return err
		},
		take: func(ctx context.Context) error {
			_, err := out.Exec(ctx, `UPDATE outbox SET processed_at = now() WHERE id = (SELECT id FROM outbox WHERE processed_at IS NULL ORDER BY created_at LIMIT 1)`)
			return err
		},
	}
}

func rabbitMQ(t *testing.T) broker {
	server := testservice.StartRabbitMQ(t)
	conn, err := amqp.Dial(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	channel := func() *amqp.Channel {
		ch, err := conn.Channel()
		if err != nil {
			t.Fatal(err)
		}
		return ch
	}
	in, out := channel(), channel()
	if _, err := in.QueueDeclare("work", true, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	return broker{
		signal: `rabbitmq: {url: "` + server.URL + `", queue: work}`,
		publish: func(ctx context.Context) error {
			return in.PublishWithContext(ctx, "", "work", false, false, amqp.Publishing{Body: []byte("{}")})
		},
		take: func(context.Context) error {
			_, _, err := out.Get("work", true)
			return err
		},
	}
}

// prometheusMetrics is a queue in memory, of which Prometheus tells.
func prometheusMetrics(t *testing.T) broker {
	var mu sync.Mutex
	var waiting []time.Time
	done := 0
	exporter := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		age := 0.0
		if len(waiting) > 0 {
			age = time.Since(waiting[0]).Seconds()
		}
		fmt.Fprintf(w, "work_age_seconds %f\nwork_depth %d\nwork_done_total %d\n", age, len(waiting), done)
	}))
	t.Cleanup(exporter.Close)
	server := testservice.StartPrometheus(t, strings.TrimPrefix(exporter.URL, "http://"))
	return broker{
		signal: `prometheus: {url: "` + server.URL + `", age: work_age_seconds, depth: work_depth, done: work_done_total}`,
		publish: func(context.Context) error {
			mu.Lock()
			defer mu.Unlock()
			waiting = append(waiting, time.Now())
			return nil
		},
		take: func(context.Context) error {
			mu.Lock()
			defer mu.Unlock()
			if len(waiting) > 0 {
				waiting, done = waiting[1:], done+1
			}
			return nil
		},
	}
}

const maxUsefulAge = 20 * time.Second

// Properties 6 and 8, with real brokers and real workers: the workers stop, and
// admission acts before the objective is passed, least important class first,
// while the most important one flows; the workers go on, and everything reopens.
func TestWorkerOutageAtRealBrokers(t *testing.T) {
	for name, make := range map[string]func(*testing.T) broker{
		"redis_stream": redisStream, "redis_list": sidekiqList, "sql": sqlTable, "rabbitmq": rabbitMQ, "prometheus": prometheusMetrics,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			workerOutage(t, make(t))
		})
	}
}

func workerOutage(t *testing.T, b broker) {
	ctx, stop := context.WithCancel(context.Background())
	var publishing sync.Mutex
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		publishing.Lock()
		defer publishing.Unlock()
		if err := b.publish(ctx); err != nil {
			w.WriteHeader(500)
			return
		}
		w.WriteHeader(202)
	}))
	var all sync.WaitGroup
	defer origin.Close()
	defer all.Wait()
	defer stop()

	var paused atomic.Bool
	every := func(d time.Duration, do func()) {
		all.Go(func() {
			tick := time.NewTicker(d)
			defer tick.Stop()
			for {
				select {
				case <-ctx.Done():
					return
				case <-tick.C:
					do()
				}
			}
		})
	}
	every(10*time.Millisecond, func() {
		if !paused.Load() {
			if err := b.take(ctx); err != nil && ctx.Err() == nil {
				t.Errorf("a worker: %v", err)
			}
		}
	})

	p := queueGateway(t, origin.URL, `
classes: [{name: critical}, {name: standard}, {name: bulk}]
queues:
  work:
    max_useful_age: 20s
    max_depth: 2000
    signal: {every: 250ms, `+b.signal+`}
    shed:
      bulk: {from: 5%, full: 10%, action: defer}
      standard: {from: 20%, full: 30%}
      critical: {from: 95%, full: 100%}
routes:
  - {id: critical, match: {path: /critical}, class: critical, queue: work}
  - {id: standard, match: {path: /standard}, class: standard, queue: work}
  - {id: bulk, match: {path: /bulk}, class: bulk, queue: work}
`)
	// The last answers of each class: 1 admitted, 0 refused.
	var recent [3]atomic.Uint64
	classes := []string{"critical", "standard", "bulk"}
	client := &http.Client{Timeout: 5 * time.Second}
	for i, class := range classes {
		every(60*time.Millisecond, func() {
			res, err := client.Post("http://"+p.client+"/"+class, "text/plain", strings.NewReader("x"))
			if err != nil {
				return
			}
			_, _ = io.Copy(io.Discard, res.Body)
			res.Body.Close()
			bit := uint64(0)
			if res.StatusCode == 202 {
				bit = 1
			}
			recent[i].Store(recent[i].Load()<<1 | bit)
		})
	}
	lastTen := func(i int) uint64 { return recent[i].Load() & 1023 }
	open := func() bool { return lastTen(0) == 1023 && lastTen(1) == 1023 && lastTen(2) == 1023 }

	long := &process{t: t, log: p.log, done: p.done, patience: 90 * time.Second}
	long.until("all classes are admitted", open)
	paused.Store(true)
	began := time.Now()
	// The workers were never busy before, so what they can do is known as a lower
	// bound only, and on a slow machine that is low: towards the end critical
	// requests may be refused for a moment, too.
	for _, step := range []struct {
		what  string
		class int
		flow  int // of the last ten critical requests
	}{{"bulk is refused", 2, 8}, {"standard is refused", 1, 1}} {
		long.until(step.what, func() bool { return lastTen(step.class) == 0 })
		if age := time.Since(began); age > maxUsefulAge {
			t.Errorf("%s only after %v, the objective is %v", step.what, age, maxUsefulAge)
		}
		if n := bits.OnesCount64(lastTen(0)); n < step.flow {
			t.Errorf("when %s, only %d of the last ten critical requests are admitted", step.what, n)
		}
	}
	paused.Store(false)
	long.until("everything reopens", open)
}
