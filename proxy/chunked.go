package proxy

import (
	"errors"
	"io"
)

// dechunker takes the chunked transfer coding (RFC 9112 section 7.1) off a
// body, strictly: sizes are bare hex digits, lines end in CRLF, extensions are
// skipped within a bound, and trailers are handed to the owner, who refuses or
// keeps them. The zero value is at the start of a body.
type dechunker struct {
	state    chunkState
	left     uint64 // of the current chunk's data
	digits   int
	skipped  int  // extension bytes so far, in all chunks
	trailers bool // trailer fields are allowed; they are collected in trailer
	trailer  []byte
	lineFrom int // start of the current trailer line in trailer
}

type chunkState uint8

const (
	chunkSize chunkState = iota
	chunkExtension
	chunkSizeLF
	chunkData
	chunkDataCR
	chunkDataLF
	chunkTrailer
	chunkTrailerLF
	chunkDone
)

const (
	maxChunkDigits    = 15       // sizes below 2^60
	maxChunkExtension = 16 << 10 // bytes of extensions in one body
	maxTrailer        = 16 << 10
)

var (
	errChunk    = errors.New("the chunked coding is malformed")
	errTrailers = errors.New("trailers are not accepted")
)

// next reads on in b. It returns the next piece of data, at most limit bytes of
// b and possibly none, and how many bytes of b are used up, data included. At
// the end of the body err is io.EOF, and bytes after used belong to what
// follows.
func (d *dechunker) next(b []byte, limit int) (data []byte, used int, err error) {
	for used < len(b) && d.state != chunkDone {
		c := b[used]
		switch d.state {
		case chunkData:
			n := min(uint64(min(len(b)-used, limit)), d.left)
			data = b[used : used+int(n)]
			used += int(n)
			if d.left -= n; d.left == 0 {
				d.state = chunkDataCR
			}
			return data, used, nil
		case chunkSize:
			v, ok := hexValue(c)
			switch {
			case ok:
				if d.digits++; d.digits > maxChunkDigits {
					return nil, used, errChunk
				}
				d.left = d.left<<4 | uint64(v)
			case d.digits == 0:
				return nil, used, errChunk
			case c == ';':
				d.state = chunkExtension
			case c == '\r':
				d.state = chunkSizeLF
			default:
				return nil, used, errChunk
			}
		case chunkExtension:
			d.skipped++
			switch {
			case d.skipped > maxChunkExtension:
				return nil, used, errChunk
			case c == '\r':
				d.state = chunkSizeLF
			case c < ' ' && c != '\t' || c == 0x7f:
				return nil, used, errChunk
			}
		case chunkSizeLF:
			if c != '\n' {
				return nil, used, errChunk
			}
			d.state, d.digits = chunkData, 0
			if d.left == 0 {
				d.state = chunkTrailer
			}
		case chunkDataCR:
			if c != '\r' {
				return nil, used, errChunk
			}
			d.state = chunkDataLF
		case chunkDataLF:
			if c != '\n' {
				return nil, used, errChunk
			}
			d.state = chunkSize
		case chunkTrailer:
			if err := d.trailerByte(c); err != nil {
				return nil, used, err
			}
		case chunkTrailerLF:
			if c != '\n' {
				return nil, used, errChunk
			}
			if err := d.endTrailerLine(); err != nil {
				return nil, used, err
			}
		}
		used++
	}
	if d.state == chunkDone {
		return nil, used, io.EOF
	}
	return nil, used, nil
}

func (d *dechunker) trailerByte(c byte) error {
	if c == '\r' {
		d.state = chunkTrailerLF
		return nil
	}
	if !d.trailers {
		return errTrailers
	}
	if len(d.trailer) >= maxTrailer || c < ' ' && c != '\t' || c == 0x7f {
		return errChunk
	}
	d.trailer = append(d.trailer, c)
	return nil
}

// endTrailerLine ends the body at an empty line, or checks the field it ended.
func (d *dechunker) endTrailerLine() error {
	if len(d.trailer) == d.lineFrom {
		d.state = chunkDone
		return nil
	}
	f, fault := scanField(d.trailer, d.lineFrom, len(d.trailer))
	if fault != "" || f.kind != kindPlain {
		return errChunk
	}
	d.trailer = append(d.trailer, '\r', '\n')
	d.lineFrom = len(d.trailer)
	d.state = chunkTrailer
	return nil
}

func hexValue(c byte) (v byte, ok bool) {
	switch {
	case isDigit(c):
		return c - '0', true
	case 'a' <= c|0x20 && c|0x20 <= 'f':
		return c | 0x20 - 'a' + 10, true
	}
	return 0, false
}

// appendChunkSize writes the line that begins a chunk of n bytes.
func appendChunkSize(b []byte, n int) []byte {
	shift := 0
	for n>>shift > 15 {
		shift += 4
	}
	for ; shift >= 0; shift -= 4 {
		b = append(b, hexDigits[n>>shift&15])
	}
	return append(b, '\r', '\n')
}
