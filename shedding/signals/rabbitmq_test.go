package signals

import (
	"context"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"sluice/internal/testservice"
)

func TestRabbitMQ(t *testing.T) {
	broker := testservice.StartRabbitMQ(t)
	conn, err := amqp.Dial(broker.URL)
	if err != nil {
		t.Fatal(err)
	}
	ch, err := conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	live, err := NewRabbitMQ(RabbitMQOptions{URL: broker.URL, Queue: "work"})
	if err != nil {
		t.Fatal(err)
	}
	closing(t, live)
	api, err := NewRabbitMQ(RabbitMQOptions{API: strings.Replace(broker.API, "http://", "http://guest:guest@", 1), Queue: "work"})
	if err != nil {
		t.Fatal(err)
	}
	closing(t, api)

	// A queue that is not there is an error, and the reader survives it.
	if err := readError(t, live); !strings.Contains(err.Error(), "NOT_FOUND") {
		t.Errorf("error %v, want NOT_FOUND", err)
	}
	if err := readError(t, api); !strings.Contains(err.Error(), "404") {
		t.Errorf("error %v, want 404", err)
	}

	if _, err := ch.QueueDeclare("work", true, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	near(t, "depth of an empty queue", readOnce(t, live).Depth, 0, 0)
	old := time.Now().Add(-90 * time.Second)
	for range 10 {
		if err := ch.PublishWithContext(t.Context(), "", "work", false, false, amqp.Publishing{Body: []byte("x"), Timestamp: old, DeliveryMode: amqp.Persistent}); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "the depth is 10", func() bool { d, _ := readOnce(t, live).Depth.Get(); return d == 10 })
	unknown(t, "age over AMQP", readOnce(t, live).Age)
	eventually(t, "the API tells 10 and the age", func() bool {
		s := readAgain(t, api)
		d, _ := s.Depth.Get()
		age, known := s.Age.Get()
		return d == 10 && known && age > 80 && age < 400
	})

	// Four are taken, three of them completed.
	deliveries := 0
	for deliveries < 4 {
		m, ok, err := ch.Get("work", false)
		if err != nil {
			t.Fatal(err)
		}
		if ok {
			if deliveries++; deliveries < 4 {
				if err := m.Ack(false); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	eventually(t, "the API tells 6 waiting and 3 completed", func() bool {
		s := readAgain(t, api)
		d, _ := s.Depth.Get()
		done, _ := s.Done.Get()
		return d == 6 && done == 3
	})

	// A reader that is not answered comes back by its deadline.
	ctx, cancel := context.WithTimeout(t.Context(), time.Nanosecond)
	if _, err := live.Read(ctx); err == nil {
		t.Error("no error after the deadline")
	}
	cancel()

	broker.Kill()
	readError(t, live)
	readError(t, api)
	broker.Restart()
	near(t, "depth after a restart", readAgain(t, live).Depth, 7, 1)
	readAgain(t, api)
	_ = conn.Close()
}

// eventually waits for what a broker does when it gets round to it.
func eventually(t *testing.T, what string, check func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !check(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("it never came to be that %s", what)
		}
	}
}

func TestRabbitMQOptions(t *testing.T) {
	for name, o := range map[string]RabbitMQOptions{
		"no queue": {URL: "amqp://x"},
		"nothing":  {Queue: "q"},
		"both":     {URL: "amqp://x", API: "http://x", Queue: "q"},
		"URL":      {URL: "http://u:hunter2@x", Queue: "q"},
		"API":      {API: "amqp://u:hunter2@x", Queue: "q"},
	} {
		if _, err := NewRabbitMQ(o); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: error is %v", name, err)
		}
	}
}
