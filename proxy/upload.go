package proxy

import (
	"errors"
	"io"
	"sync"
	"time"

	"sluice/admission"
)

// upload sends a request's body to the origin while its answer is being read,
// since an origin may answer before it has read everything. The methods can be
// called on nil, which is an upload that is over and went well.
type upload struct {
	oc      *originConn
	timeout time.Duration // for the answer's head, from the upload's end; 0: until says
	done    chan struct{}

	mu      sync.Mutex
	over    bool
	stopped bool
	hasHead bool
	until   time.Time // when the answer's head must be there; zero: no limit yet
	fault   violation // what was wrong with the body; the client's fault
	err     error     // writing failed: the origin's
}

// errUpload says that a round trip ended because the client's body was refused.
var errUpload = errors.New("the client did not send the whole body")

// startUpload begins to send the body.
func (oc *originConn) startUpload(x *exchange, rp *RoutePolicy) *upload {
	u := &upload{oc: oc, timeout: rp.Timeout, done: make(chan struct{})}
	_ = oc.Conn.SetReadDeadline(time.Time{})
	go func() {
		defer close(u.done)
		fault, err := u.run(x, rp)
		u.end(fault, err)
	}()
	return u
}

// startWrite begins to write a body that has been read in full, too large to be
// taken at once. The answer must be there by the deadline.
func (oc *originConn) startWrite(body []byte, deadline time.Time) *upload {
	u := &upload{oc: oc, done: make(chan struct{}), until: deadline}
	go func() {
		defer close(u.done)
		_, err := u.write(body, deadline)
		u.end(violation{}, err)
	}()
	return u
}

// run sends the body. It returns what was wrong with that, or why the origin
// did not take it.
func (u *upload) run(x *exchange, rp *RoutePolicy) (violation, error) {
	buf := wasteBuffers.Get().(*[32 << 10]byte)
	defer wasteBuffers.Put(buf)
	const front = 16 // room for the chunk's size line
	for {
		x.c.armRead(rp.BodyTimeout)
		if u.isStopped() {
			return violation{}, errUpload
		}
		n, err := x.body.Read(buf[front : len(buf)-2])
		switch {
		case err != nil && err != io.EOF:
			return bodyViolation(err), nil
		case rp.MaxBody > 0 && x.body.got > rp.MaxBody:
			return violation{reason: admission.TooLarge}, nil
		}
		piece := buf[front : front+n]
		if x.head.chunked {
			piece = piece[:0]
			if n > 0 {
				line := appendChunkSize(make([]byte, 0, front), n)
				piece = append(buf[front-len(line):front-len(line)], line...)
				piece = append(piece[:len(line)+n], '\r', '\n')
			}
			if err == io.EOF {
				piece = append(piece, "0\r\n\r\n"...)
			}
		}
		if len(piece) > 0 {
			if _, werr := u.write(piece, time.Now().Add(x.c.server.timeouts().write)); werr != nil {
				return violation{}, werr
			}
		}
		if err == io.EOF {
			return violation{}, nil
		}
	}
}

// write writes a piece of the body, unless the upload has been stopped.
func (u *upload) write(p []byte, deadline time.Time) (int, error) {
	_ = u.oc.Conn.SetWriteDeadline(deadline)
	if u.isStopped() {
		return 0, errUpload
	}
	return u.oc.Conn.Write(p)
}

// end notes how the upload went and lets the wait for the answer know.
func (u *upload) end(fault violation, err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.over, u.fault, u.err = true, fault, err
	if u.timeout > 0 {
		u.until = time.Now().Add(u.timeout)
	}
	switch {
	case fault.is():
		// The origin must not take a part for the whole.
		_ = u.oc.Conn.Close()
	case u.hasHead:
		// From here on the client is watched another way.
		_ = u.oc.Conn.SetReadDeadline(past)
	default:
		// An origin that did not take everything may still have answered.
		_ = u.oc.Conn.SetReadDeadline(u.until)
	}
}

func (u *upload) headArrived() {
	if u == nil {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.hasHead = true
}

// settle gives an upload that is just about over the moment to notice: most
// origins answer when they have everything, and a connection whose upload is over
// can be kept.
func (u *upload) settle() {
	if u == nil || !u.waits() {
		return
	}
	soon := time.NewTimer(time.Millisecond)
	defer soon.Stop()
	select {
	case <-u.done:
	case <-soon.C:
	}
}

// due is when the answer's head must be there; zero while the upload runs.
func (u *upload) due() time.Time {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.until
}

// waits reports whether the upload runs on; the wait for the answer then has no
// limit of its own.
func (u *upload) waits() bool {
	if u == nil {
		return false
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if !u.over {
		_ = u.oc.Conn.SetReadDeadline(time.Time{})
	}
	return !u.over
}

// refused says what was wrong with the body.
func (u *upload) refused() violation {
	if u == nil {
		return violation{}
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.fault
}

func (u *upload) isStopped() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.stopped
}

// stop ends the upload. It reports whether it was complete.
func (u *upload) stop(x *exchange) bool {
	if u == nil {
		return true
	}
	u.mu.Lock()
	u.stopped = true
	if !u.over {
		// The upload looks at stopped after it has set a deadline of its own,
		// so it sees either that or these.
		_ = x.c.Conn.SetReadDeadline(past)
		_ = u.oc.Conn.SetWriteDeadline(past)
	}
	u.mu.Unlock()
	<-u.done
	x.c.armed = time.Time{}
	if !x.body.ended() {
		x.keep = false
	}
	return u.err == nil && x.body.ended()
}
