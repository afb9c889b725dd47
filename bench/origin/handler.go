package origin

import (
	"encoding/json"
	"hash/maphash"
	"net"
	"strconv"
	"time"

	"github.com/valyala/fasthttp"

	"sluice/bench/wire"
)

var bodySeed = maphash.MakeSeed()

func (o *Origin) handle(ctx *fasthttp.RequestCtx) {
	switch string(ctx.Request.URI().PathOriginal()) {
	case wire.SignalPath:
		o.serveSignal(ctx)
	case wire.LedgerPath:
		o.serveJSON(ctx, o.ledger.Totals())
	case wire.HealthPath:
		ctx.SetStatusCode(fasthttp.StatusNoContent)
	default:
		ctx.Response.Header.Set(wire.Origin, "1")
		if ctx.IsGet() || ctx.IsHead() {
			o.reads.Add(1)
			o.serveJSON(ctx, struct {
				Path string `json:"path"`
			}{string(ctx.RequestURI())})
			return
		}
		o.publish(ctx)
	}
}

// publish is the API under load: wait for a slot, meet the faults, take the
// time that answering takes, record, answer.
func (o *Origin) publish(ctx *fasthttp.RequestCtx) {
	if o.slots != nil {
		o.slots <- struct{}{}
		defer func() { <-o.slots }()
	}
	faults := o.faults.Load()
	for faults.Stall {
		<-faults.over
		faults = o.faults.Load()
	}
	takes, u := o.draw()
	if takes += faults.Latency; takes > 0 {
		time.Sleep(takes)
	}
	fate := faults.fate(u)
	switch fate {
	case fateError:
		o.refuse(ctx, "the simulated provider fails")
		return
	case fateReset:
		o.failed.Add(1)
		hangUp(ctx, true)
		return
	}
	now := time.Now()
	if s := o.queue.state(now); s.Depth >= o.opts.MaxDepth {
		o.refuse(ctx, "the simulated queue is full")
		return
	}
	id := o.ledger.record(entryOf(ctx, now))
	o.queue.push(now, id)
	if fate == fateLost {
		hangUp(ctx, false)
		return
	}
	o.tellSignal(ctx)
	ctx.SetStatusCode(fasthttp.StatusAccepted)
	ctx.SetContentType("application/json")
	b := append(ctx.Response.Body(), `{"accepted":`...)
	b = strconv.AppendInt(b, id, 10)
	ctx.Response.SetBodyRaw(append(b, "}\n"...))
}

func (o *Origin) refuse(ctx *fasthttp.RequestCtx, why string) {
	o.failed.Add(1)
	o.tellSignal(ctx)
	ctx.SetStatusCode(fasthttp.StatusServiceUnavailable)
	ctx.SetContentType("application/json")
	ctx.SetBodyString(`{"error":"` + why + "\"}\n")
}

// hangUp ends the connection without an answer: by a reset, or as a process
// that dies does.
func hangUp(ctx *fasthttp.RequestCtx, reset bool) {
	c := ctx.Conn()
	if tcp, ok := c.(*net.TCPConn); ok && reset {
		_ = tcp.SetLinger(0)
	}
	_ = c.Close()
}

// entryOf copies what the ledger keeps out of the transport's memory.
func entryOf(ctx *fasthttp.RequestCtx, now time.Time) Entry {
	h := &ctx.Request.Header
	first := func(names ...string) string {
		for _, n := range names {
			if v := h.Peek(n); len(v) > 0 {
				return string(v)
			}
		}
		return ""
	}
	var hash maphash.Hash
	hash.SetSeed(bodySeed)
	_, _ = hash.Write(h.Method())
	_, _ = hash.Write(h.RequestURI())
	_ = hash.WriteByte(0)
	_, _ = hash.Write(ctx.Request.Body())
	return Entry{
		Effect:    first(wire.Effect),
		Tenant:    first("Sluice-Tenant", "X-Tenant-Id"),
		Class:     first("Sluice-Class", wire.Class),
		Key:       first("Idempotency-Key"),
		Attempt:   first("Sluice-Attempt"),
		RequestID: first("X-Request-Id"),
		Body:      hash.Sum64(),
		Recorded:  now,
	}
}

// told is the queue's state as the signal fault in force lets it appear; false
// where nothing is told.
func (o *Origin) told(f SignalFault) (Signal, bool) {
	switch f {
	case SignalAbsent, SignalMute:
		return Signal{}, false
	case SignalFrozen:
		if s := o.frozen.Load(); s != nil {
			return *s, true
		}
		return Signal{}, false
	case SignalZero:
		s := o.Signal()
		s.OldestAge, s.Depth = 0, 0
		return s, true
	}
	return o.Signal(), true
}

func (o *Origin) tellSignal(ctx *fasthttp.RequestCtx) {
	if s, ok := o.told(o.faults.Load().Signal); ok {
		var buf [96]byte
		ctx.Response.Header.SetBytesV(wire.Signal, s.appendHeader(buf[:0]))
	}
}

func (o *Origin) serveSignal(ctx *fasthttp.RequestCtx) {
	f := o.faults.Load()
	for f.Signal == SignalMute {
		<-f.over
		f = o.faults.Load()
	}
	s, ok := o.told(f.Signal)
	if !ok {
		ctx.SetStatusCode(fasthttp.StatusServiceUnavailable)
		return
	}
	o.serveJSON(ctx, s)
}

func (o *Origin) serveJSON(ctx *fasthttp.RequestCtx, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		ctx.Error(err.Error(), fasthttp.StatusInternalServerError)
		return
	}
	ctx.SetContentType("application/json")
	ctx.SetBody(append(b, '\n'))
}
