package signals

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"sluice/shedding"
)

// RabbitMQOptions describes a queue of RabbitMQ. One of the two URLs is
// required.
type RabbitMQOptions struct {
	URL string // amqp:// or amqps://, with user, password and virtual host
	API string // http:// or https:// of the management plugin, with user and password
	// VHost of the queue, for API; "": "/".
	VHost string
	Queue string
}

// RabbitMQ reads a queue of RabbitMQ.
//
// Over AMQP it declares the queue passively, which gives its depth as it is
// now, and no more. The management API gives the depth and the number of
// acknowledged messages, both some seconds old: 5 s unless the broker is set
// to another interval, which is for the signal's delay to say. It also gives
// the age of the message at the head, in whole seconds, if publishers set a
// timestamp, and not for quorum queues. What the API leaves out, as it does for
// some seconds after a queue was made, is left out here.
type RabbitMQ struct {
	opts   RabbitMQOptions
	client *http.Client // of the API; nil: AMQP
	page   string       // of the queue in the API

	conn    atomic.Pointer[amqp.Connection] // nil: none
	channel *amqp.Channel
}

// NewRabbitMQ returns a reader. It connects when it first reads.
func NewRabbitMQ(o RabbitMQOptions) (*RabbitMQ, error) {
	if o.Queue == "" {
		return nil, errors.New("signals: rabbitmq: Queue is not given")
	}
	if (o.URL == "") == (o.API == "") {
		return nil, errors.New("signals: rabbitmq: want one of URL and API")
	}
	if o.VHost == "" {
		o.VHost = "/"
	}
	r := &RabbitMQ{opts: o}
	if o.URL != "" {
		if _, err := amqp.ParseURI(o.URL); err != nil {
			return nil, errors.New("signals: rabbitmq: URL cannot be read, want amqp://user:password@host:port/vhost")
		}
		return r, nil
	}
	if err := checkURL(o.API); err != nil {
		return nil, fmt.Errorf("signals: rabbitmq: API: %w", err)
	}
	r.client = newHTTPClient()
	r.page = fmt.Sprintf("%s/api/queues/%s/%s", strings.TrimRight(o.API, "/"), url.PathEscape(o.VHost), url.PathEscape(o.Queue))
	return r, nil
}

// Read implements [Reader].
func (r *RabbitMQ) Read(ctx context.Context) (shedding.Sample, error) {
	if r.client != nil {
		return r.ask(ctx)
	}
	type declared struct {
		depth int
		err   error
	}
	// The client knows no context, and a broker in alarm does not answer.
	answer := make(chan declared, 1)
	go func() {
		depth, err := r.declare(ctx)
		answer <- declared{depth, err}
	}()
	select {
	case a := <-answer:
		if a.err != nil {
			return shedding.Sample{}, a.err
		}
		return shedding.Sample{Depth: shedding.Known(float64(a.depth))}, nil
	case <-ctx.Done():
		// Dialling ends with ctx. What is stuck after that is freed by closing,
		// perhaps a connection that was made just now.
		for {
			if conn := r.conn.Load(); conn != nil {
				_ = conn.CloseDeadline(time.Now())
			}
			select {
			case <-answer:
				r.drop()
				return shedding.Sample{}, ctx.Err()
			case <-time.After(10 * time.Millisecond):
			}
		}
	}
}

// declare asks for the depth, on a new connection or channel where there is
// none: a missing queue closes the channel.
func (r *RabbitMQ) declare(ctx context.Context) (int, error) {
	conn := r.conn.Load()
	if conn == nil || conn.IsClosed() {
		var err error
		conn, err = amqp.DialConfig(r.opts.URL, amqp.Config{
			Heartbeat:  10 * time.Second,
			Properties: amqp.Table{"connection_name": "sluice: signal of " + r.opts.Queue},
			Dial: func(network, address string) (net.Conn, error) {
				c, err := (&net.Dialer{}).DialContext(ctx, network, address)
				if err != nil {
					return nil, err
				}
				// Until the handshake is over, after which amqp lifts it.
				if end, ok := ctx.Deadline(); ok {
					err = c.SetDeadline(end)
				}
				return c, err
			},
		})
		if err != nil {
			return 0, err
		}
		r.conn.Store(conn)
		r.channel = nil
	}
	if r.channel == nil || r.channel.IsClosed() {
		channel, err := conn.Channel()
		if err != nil {
			r.drop()
			return 0, err
		}
		r.channel = channel
	}
	q, err := r.channel.QueueDeclarePassive(r.opts.Queue, false, false, false, false, nil)
	if err != nil {
		r.channel = nil
		return 0, err
	}
	return q.Messages, nil
}

func (r *RabbitMQ) drop() {
	if conn := r.conn.Swap(nil); conn != nil {
		_ = conn.CloseDeadline(time.Now().Add(100 * time.Millisecond))
	}
	r.channel = nil
}

// ask reads the queue's page in the management API.
func (r *RabbitMQ) ask(ctx context.Context) (shedding.Sample, error) {
	var q struct {
		Ready *float64 `json:"messages_ready"`
		Head  *float64 `json:"head_message_timestamp"`
		Stats *struct {
			Acked     *float64 `json:"ack"`
			NoAck     float64  `json:"deliver_no_ack"`
			GotNoAck  float64  `json:"get_no_ack"`
			Delivered *float64 `json:"deliver_get"`
		} `json:"message_stats"`
	}
	if err := get(ctx, r.client, r.page, nil, &q); err != nil {
		return shedding.Sample{}, fmt.Errorf("queue %s: %w", r.opts.Queue, err)
	}
	var s shedding.Sample
	if q.Ready == nil {
		return s, fmt.Errorf("queue %s: the management plugin has no figures yet", r.opts.Queue)
	}
	s.Depth = shedding.Known(*q.Ready)
	switch {
	case q.Head != nil:
		s.Age = shedding.Known(float64(time.Now().UnixMilli())/1000 - *q.Head)
	case *q.Ready == 0:
		s.Age = shedding.Known(0)
	}
	if q.Stats != nil && (q.Stats.Acked != nil || q.Stats.Delivered != nil) {
		done := q.Stats.NoAck + q.Stats.GotNoAck
		if q.Stats.Acked != nil {
			done += *q.Stats.Acked
		}
		s.Done = shedding.Known(done)
	}
	return s, nil
}

// Close implements [Reader].
func (r *RabbitMQ) Close() error {
	if r.client != nil {
		r.client.CloseIdleConnections()
	}
	r.drop()
	return nil
}
