package replay

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

// packet is one packet of a capture. data is valid until the next one is read.
type packet struct {
	time   time.Time
	link   linkType
	data   []byte
	length int  // on the wire, at least len(data)
	left   bool // it is one that a gateway sent, as `l4lbd capture` saw it
}

// format reads packets of one file format. next returns io.EOF where the file
// ends behind a packet.
type format interface {
	next() (packet, error)
	nanoseconds() bool
}

var (
	errTruncated = errors.New("the file ends inside it: truncated")
	errFormat    = errors.New("neither a pcap nor a pcapng file")
)

// capture is an open capture file.
type capture struct {
	format
	file *os.File
	size int64 // of the file, bytes; maxSize for what is no regular file
}

const maxSize = 1 << 50

// openCapture opens a file and reads its header.
func openCapture(path string) (*capture, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open capture: %w", err)
	}
	c := &capture{file: file, size: maxSize}
	if info, err := file.Stat(); err == nil && info.Mode().IsRegular() {
		c.size = info.Size()
	}
	if c.format, err = readFormat(bufio.NewReaderSize(file, 1<<16)); err != nil {
		file.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return c, nil
}

func (c *capture) close() { c.file.Close() }

// readFormat tells the format by the first four bytes.
func readFormat(r *bufio.Reader) (format, error) {
	magic, err := r.Peek(4)
	if errors.Is(err, io.EOF) {
		if len(magic) == 0 {
			return nil, errors.New("the file is empty, not even a header is there")
		}
		return nil, errFormat
	}
	if err != nil {
		return nil, err
	}
	if binary.BigEndian.Uint32(magic) == ngSection {
		return newPcapng(r)
	}
	for _, order := range []binary.ByteOrder{binary.LittleEndian, binary.BigEndian} {
		switch order.Uint32(magic) {
		case pcapMicroseconds:
			return newPcap(r, order, time.Microsecond)
		case pcapNanoseconds:
			return newPcap(r, order, time.Nanosecond)
		}
	}
	return nil, errFormat
}

// readFull fills buf; nothing at all is io.EOF, less than all is errTruncated.
func readFull(r io.Reader, buf []byte) error {
	_, err := io.ReadFull(r, buf)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return errTruncated
	}
	return err
}

// readRest fills buf where something came before it.
func readRest(r io.Reader, buf []byte) error {
	err := readFull(r, buf)
	if errors.Is(err, io.EOF) {
		return errTruncated
	}
	return err
}

// grow returns a buffer of n bytes, buf where it is large enough.
func grow(buf []byte, n int) []byte {
	if cap(buf) < n {
		return make([]byte, n, n+n/2)
	}
	return buf[:n]
}
