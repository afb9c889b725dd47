package idempotency

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// Sync says when a journal is written through to the disk.
type Sync uint8

const (
	// SyncAlways, the zero value, does so before a change is confirmed;
	// changes made at the same time share one write-through. Nothing confirmed
	// is lost when the machine loses power.
	SyncAlways Sync = iota
	// SyncEverySecond does so once a second: losing power loses the last
	// second, a crash of the process nothing.
	SyncEverySecond
	// SyncNever leaves it to the operating system: losing power can lose more;
	// a crash of the process still loses nothing.
	SyncNever
)

// journal is an append-only file of changes: a header, then frames of
//
//	length of the payload (4), CRC-32C of the payload (4), CRC-32C of these (4),
//	payload: expiry in Unix ms (8), length of the name (2), name, value
//
// A frame without value removes the record. The last frame of a name counts.
// Frames whose effect is over are dropped by writing the file anew, in the
// background, once it has grown to twice what the store holds.
type journal struct {
	memory *Memory
	path   string
	mode   Sync
	lock   *os.File
	done   chan struct{} // closed: stop the background
	wg     sync.WaitGroup

	closing sync.Once
	closed  error // what closing gave

	syncing sync.Mutex // held while writing through; before mu
	synced  int64      // everything up to here is on the disk

	mu         sync.Mutex // after any shard's mu
	file       *os.File
	frame      []byte
	size       int64 // of the file
	written    int64 // bytes appended since opening
	broken     error // once set, nothing is written any more
	compacting bool
	tail       []byte // frames appended while the file is written anew
	compactAt  int64  // size from which to consider writing it anew
}

const (
	journalHeader  = "SLUICEJ\x01"
	frameHead      = 12
	payloadHead    = 10
	maxFrame       = maxBody + 1<<20
	compactionSize = 4 << 20
)

// append writes one change; an empty value removes. It returns what to await.
func (j *journal) append(name string, value []byte, expires time.Time) (int64, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.broken != nil {
		return 0, j.broken
	}
	j.frame = appendFrame(j.frame[:0], name, value, expires)
	if _, err := j.file.Write(j.frame); err != nil {
		// Half a frame would end the journal when it is read.
		if undo := j.cutTo(j.size); undo != nil {
			j.broken = fmt.Errorf("journal %s: %w; its end is damaged", j.path, errors.Join(err, undo))
		}
		return 0, fmt.Errorf("journal %s: %w", j.path, err)
	}
	n := int64(len(j.frame))
	j.size += n
	j.written += n
	if j.compacting {
		j.tail = append(j.tail, j.frame...)
	} else if j.size > j.compactAt && j.size > 2*j.memory.used.Load() {
		j.compacting = true
		j.tail = nil
		j.wg.Go(j.compact)
	}
	return j.written, nil
}

func (j *journal) cutTo(size int64) error {
	if err := j.file.Truncate(size); err != nil {
		return err
	}
	_, err := j.file.Seek(size, 0)
	return err
}

func appendFrame(b []byte, name string, value []byte, expires time.Time) []byte {
	start := len(b)
	b = binary.BigEndian.AppendUint32(b, uint32(payloadHead+len(name)+len(value)))
	b = append(b, make([]byte, frameHead-4)...)
	b = binary.BigEndian.AppendUint64(b, uint64(expires.UnixMilli()))
	b = binary.BigEndian.AppendUint16(b, uint16(len(name)))
	b = append(b, name...)
	b = append(b, value...)
	binary.BigEndian.PutUint32(b[start+4:], crc32.Checksum(b[start+frameHead:], castagnoli))
	binary.BigEndian.PutUint32(b[start+8:], crc32.Checksum(b[start:start+8], castagnoli))
	return b
}

// await returns once the change that append numbered is as safe as the mode
// promises. Whoever comes first writes through for all who came since.
func (j *journal) await(written int64) error {
	if j == nil || j.mode != SyncAlways {
		return nil
	}
	return j.writeThrough(written)
}

func (j *journal) writeThrough(written int64) error {
	j.syncing.Lock()
	defer j.syncing.Unlock()
	if j.synced >= written {
		return nil
	}
	j.mu.Lock()
	file, upTo, err := j.file, j.written, j.broken
	j.mu.Unlock()
	if err != nil {
		return err
	}
	if err := file.Sync(); err != nil {
		// What a failed sync left on the disk is unknown, and a later one
		// would not tell.
		err = fmt.Errorf("journal %s: %w; restart to continue from what is on the disk", j.path, err)
		j.mu.Lock()
		j.broken = err
		j.mu.Unlock()
		return err
	}
	j.synced = upTo
	return nil
}

// everySecond writes through in the background until the journal is closed.
func (j *journal) everySecond() {
	t := time.NewTicker(time.Second)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			j.mu.Lock()
			written := j.written
			j.mu.Unlock()
			j.writeThrough(written) // an error shows at the next append
		case <-j.done:
			return
		}
	}
}

// compact writes the file anew with what the store holds now. Changes made
// meanwhile go to the old file and, after everything else, to the new one.
func (j *journal) compact() {
	err := j.rewrite()
	j.mu.Lock()
	defer j.mu.Unlock()
	j.compacting = false
	j.tail = nil
	j.compactAt = max(compactionSize, j.size)
	if err != nil { // the old file goes on; try again once it has doubled
		j.compactAt = 2 * j.size
		os.Remove(j.path + ".new")
	}
}

func (j *journal) rewrite() error {
	file, err := os.OpenFile(j.path+".new", os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	size, err := j.snapshot(file)
	if err == nil {
		err = file.Sync() // most of it, before anybody has to wait
	}
	if err == nil {
		err = j.swap(file, size)
	}
	if err != nil {
		file.Close()
	}
	return err
}

func (j *journal) snapshot(file *os.File) (size int64, err error) {
	buf := []byte(journalHeader)
	for i := range j.memory.shards {
		s := &j.memory.shards[i]
		s.mu.Lock()
		for _, e := range s.entries {
			buf = appendFrame(buf, e.name, e.value, e.expires)
		}
		s.mu.Unlock()
		n, err := file.Write(buf)
		size += int64(n)
		if err != nil {
			return size, err
		}
		buf = buf[:0]
	}
	return size, nil
}

// swap completes the new file and puts it in the old one's place.
func (j *journal) swap(file *os.File, size int64) error {
	j.syncing.Lock()
	defer j.syncing.Unlock()
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.broken != nil {
		return j.broken
	}
	if _, err := file.Write(j.tail); err != nil {
		return err
	}
	if err := file.Sync(); err != nil {
		return err
	}
	if err := os.Rename(j.path+".new", j.path); err != nil {
		return err
	}
	syncDir(filepath.Dir(j.path))
	j.file.Close()
	j.file = file
	j.size = size + int64(len(j.tail))
	j.synced = j.written
	return nil
}

// syncDir makes a renamed file stay renamed. Where directories cannot be
// synced, the file system does so itself.
func syncDir(path string) {
	if d, err := os.Open(path); err == nil {
		d.Sync()
		d.Close()
	}
}

func (j *journal) close() error {
	j.closing.Do(func() {
		close(j.done)
		j.wg.Wait()
		j.mu.Lock()
		written := j.written
		j.mu.Unlock()
		err := j.writeThrough(written)
		j.mu.Lock()
		defer j.mu.Unlock()
		if j.broken == nil {
			j.broken = fmt.Errorf("journal %s is closed", j.path)
		}
		j.closed = errors.Join(err, j.file.Close(), j.lock.Close())
	})
	return j.closed
}
