package idempotency

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"time"
)

// openJournal reads the journal at path into m, makes it if there is none, and
// leaves it ready to append.
func openJournal(path string, mode Sync, m *Memory) (*journal, error) {
	lock, err := lockFile(path + ".lock")
	if err != nil {
		return nil, fmt.Errorf("journal %s: %w", path, err)
	}
	j := &journal{memory: m, path: path, mode: mode, lock: lock, done: make(chan struct{}), compactAt: compactionSize}
	if err := j.load(); err != nil {
		lock.Close()
		return nil, err
	}
	os.Remove(path + ".new") // of a rewrite that a crash ended
	if mode == SyncEverySecond {
		j.wg.Go(j.everySecond)
	}
	return j, nil
}

func (j *journal) load() error {
	file, err := os.OpenFile(j.path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	j.file = file
	if j.size, err = j.replay(); err == nil {
		err = j.cutTo(j.size)
	}
	if err == nil && j.size == 0 {
		_, err = file.WriteString(journalHeader)
		j.size = int64(len(journalHeader))
	}
	if err == nil {
		err = file.Sync()
	}
	if err != nil {
		file.Close()
		return fmt.Errorf("journal %s: %w", j.path, err)
	}
	j.memory.adopt(time.Now())
	return nil
}

// replay reads frames until the end of the file, or until a frame that a crash
// cut short. It returns the size of what is good.
func (j *journal) replay() (size int64, err error) {
	info, err := j.file.Stat()
	if err != nil {
		return 0, err
	}
	in := bufio.NewReaderSize(j.file, 1<<20)
	header := make([]byte, len(journalHeader))
	n, err := io.ReadFull(in, header)
	switch {
	case err == io.EOF:
		return 0, nil
	case errors.Is(err, io.ErrUnexpectedEOF) && string(header[:n]) == journalHeader[:n]:
		return 0, nil // crashed while making it
	case err != nil && !errors.Is(err, io.ErrUnexpectedEOF):
		return 0, err
	case string(header) != journalHeader:
		return 0, errors.New("it is no journal of this version; name another file")
	}
	size = int64(len(journalHeader))
	now := time.Now()
	for {
		payload, ok, err := readFrame(in)
		if err != nil {
			return 0, err
		}
		if !ok {
			break
		}
		if err := j.memory.restore(payload, now); err != nil {
			return 0, fmt.Errorf("byte %d: %w", size, err)
		}
		size += int64(frameHead + len(payload))
	}
	if size < info.Size() {
		torn, err := j.tornAt(size, info.Size())
		if err != nil {
			return 0, err
		}
		if !torn {
			return 0, fmt.Errorf("it is damaged at byte %d, and good records follow; restore it, or cut it to %d bytes and accept that later requests are forgotten and may be executed again", size, size)
		}
	}
	return size, nil
}

// readFrame returns the next payload; not ok at the end or at a bad frame.
func readFrame(in *bufio.Reader) (payload []byte, ok bool, err error) {
	var head [frameHead]byte
	if _, err := io.ReadFull(in, head[:]); err != nil {
		return nil, false, notEnd(err)
	}
	n, ok := frameLength(head[:])
	if !ok {
		return nil, false, nil
	}
	payload = make([]byte, n)
	if _, err := io.ReadFull(in, payload); err != nil {
		return nil, false, notEnd(err)
	}
	return payload, goodPayload(head[:], payload), nil
}

// frameLength returns the length that the head of a frame gives for its
// payload; not ok if it is no head of a frame.
func frameLength(head []byte) (n int, ok bool) {
	if crc32.Checksum(head[:8], castagnoli) != binary.BigEndian.Uint32(head[8:]) {
		return 0, false
	}
	length := binary.BigEndian.Uint32(head)
	return int(length), length >= payloadHead && length <= maxFrame
}

func goodPayload(head, payload []byte) bool {
	return crc32.Checksum(payload, castagnoli) == binary.BigEndian.Uint32(head[4:])
}

func notEnd(err error) error {
	if err == io.EOF || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil
	}
	return err
}

// tornAt reports whether the bad frame at offset is what a crash leaves: no
// good frame comes after it.
func (j *journal) tornAt(offset, end int64) (bool, error) {
	rest := make([]byte, end-offset)
	if _, err := j.file.ReadAt(rest, offset); err != nil {
		return false, err
	}
	for i := 1; i+frameHead <= len(rest); i++ {
		n, ok := frameLength(rest[i:])
		if from := i + frameHead; ok && n <= len(rest)-from && goodPayload(rest[i:], rest[from:from+n]) {
			return false, nil
		}
	}
	return true, nil
}

// restore applies one frame.
func (m *Memory) restore(payload []byte, now time.Time) error {
	expires := time.UnixMilli(int64(binary.BigEndian.Uint64(payload)))
	n := payloadHead + int(binary.BigEndian.Uint16(payload[8:]))
	if n > len(payload) {
		return corrupt("its name is longer than its frame")
	}
	name, value := string(payload[payloadHead:n]), payload[n:]
	s := m.shard(name)
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(value) == 0 || !now.Before(expires) {
		if e := s.entries[name]; e != nil {
			m.used.Add(-s.remove(e))
		}
		return nil
	}
	if _, err := m.codec.decode(name, value); err != nil {
		return err
	}
	// Measured from now on by the clock that cannot be set.
	m.used.Add(s.put(name, value, now.Add(expires.Sub(now))))
	return nil
}

// adopt deals with records that were running when the last process ended. This
// process alone has the journal, so their owners are gone, and nobody needs to
// wait for their leases: they are in doubt, or free to be taken over.
func (m *Memory) adopt(now time.Time) {
	for i := range m.shards {
		s := &m.shards[i]
		s.mu.Lock()
		for name, e := range s.entries {
			if stateOf(e.value) != InFlight {
				continue
			}
			r, err := m.codec.decode(name, e.value)
			if err != nil {
				continue // restore has just decoded it
			}
			orphan := *r
			if r.OnUnknown == Hold {
				orphan.State, orphan.Settled = InDoubt, now
			} else {
				orphan.Lease = 0
			}
			m.used.Add(s.put(name, m.codec.encode(name, &orphan), e.expires))
		}
		s.mu.Unlock()
	}
	m.makeRoom(0)
}
