package proxy

import (
	"crypto/tls"
	"errors"
	"net"
	"os"
	"syscall"
	"time"

	"sluice/internal/nowait"
)

// records is what the TLS session to an origin runs over: the TCP connection,
// seen through. Over TLS a quiet socket proves nothing, since a session reads
// ahead: the answer to one request and bytes that were never asked for may come
// in one segment, and then wait inside the session to be taken for the answer to
// the next request. So the records are followed here by their headers, to know
// whether the session has been given a part of one.
type records struct {
	net.Conn
	header [5]byte // type, version, length (RFC 8446 section 5.1)
	have   int     // bytes of the header that have gone by
	left   int     // bytes of the record's content that are still to come
}

// startTLS makes the session to an origin that is connected to.
func (oc *originConn) startTLS(config *tls.Config) *tls.Conn {
	oc.below = &records{Conn: nowait.Wrap(oc.Conn)}
	session := tls.Client(oc.below, config)
	oc.Conn, oc.raw = session, nil
	return session
}

// Read reads from the connection and follows the records.
func (r *records) Read(p []byte) (int, error) {
	n, err := r.Conn.Read(p)
	r.follow(p[:n])
	return n, err
}

func (r *records) follow(b []byte) {
	for len(b) > 0 {
		if r.left > 0 {
			n := min(r.left, len(b))
			r.left -= n
			b = b[n:]
			continue
		}
		n := copy(r.header[r.have:], b)
		r.have += n
		b = b[n:]
		if r.have == len(r.header) {
			r.have = 0
			r.left = int(r.header[3])<<8 | int(r.header[4])
		}
	}
}

// atRest reports whether the session is open and nothing has come that has not
// been read, neither within it nor below.
func (r *records) atRest(session net.Conn) bool {
	_ = session.SetReadDeadline(time.Time{}) // one that has passed would look like a fault
	if r.have > 0 || r.left > 0 || !quiet(r.Conn) {
		return false
	}
	// What the session holds it gives without asking the connection, and the
	// connection gives nothing past its deadline.
	if err := session.SetReadDeadline(past); err != nil {
		return false
	}
	var one [1]byte
	n, err := session.Read(one[:])
	return n == 0 && errors.Is(err, os.ErrDeadlineExceeded)
}

// quiet reports whether a connection is open and has nothing to read, without
// taking anything from it.
func quiet(c net.Conn) bool {
	tcp, ok := c.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return false
	}
	clean := false
	err = raw.Read(func(fd uintptr) bool {
		clean = nothingToRead(fd)
		return true
	})
	return err == nil && clean
}
