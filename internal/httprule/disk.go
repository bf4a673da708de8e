package httprule

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
)

// MaxSpooled is how many bytes all temporary files of a process may have. Without it, slow
// clients with large bodies could fill everybody's disk.
const MaxSpooled = 1 << 30

// ErrSpoolFull: the temporary files of this process already have MaxSpooled bytes.
var ErrSpoolFull = errors.New("the temporary files of this process have reached their limit")

// SpoolError: a body that is too large for memory could not be written to a temporary file, or
// a body or a response could not be read back. It is not the request's fault.
type SpoolError struct{ Err error }

func (e *SpoolError) Error() string { return "keyturn: temporary file: " + e.Err.Error() }

// Unwrap returns the file system's error, or ErrSpoolFull.
func (e *SpoolError) Unwrap() error { return e.Err }

func isSpoolError(err error) bool {
	var e *SpoolError
	return errors.As(err, &e)
}

// disk is a directory for temporary files, with a limit on the bytes of all of them. It is safe
// for concurrent use.
type disk struct {
	dir   string // "": os.TempDir, at the time of the request
	limit int64
	used  atomic.Int64
}

// tempDir is the directory of the process.
var tempDir = &disk{limit: MaxSpooled}

// create makes a file without a name, so that nothing is left of it however the process ends.
// If an open file cannot lose its name, as on Windows, it is removed at the end.
func (d *disk) create() (*tempFile, error) {
	file, err := os.CreateTemp(d.dir, "keyturn-*.tmp")
	if err != nil {
		return nil, &SpoolError{err}
	}
	f := &tempFile{file: file, disk: d}
	f.named = os.Remove(file.Name()) != nil
	return f, nil
}

// tempFile is a file that is written once from beginning to end, and then read.
type tempFile struct {
	file  *os.File
	disk  *disk
	size  int64
	named bool
}

// add writes all of p behind the file's content. After an error none of it counts.
func (f *tempFile) add(p []byte) error {
	n := int64(len(p))
	if f.disk.used.Add(n) > f.disk.limit {
		f.disk.used.Add(-n)
		return &SpoolError{ErrSpoolFull}
	}
	if _, err := f.file.WriteAt(p, f.size); err != nil {
		f.disk.used.Add(-n)
		return &SpoolError{err}
	}
	f.size += n
	return nil
}

// read fills p from offset off on. The file must be longer than off.
func (f *tempFile) read(p []byte, off int64) (int, error) {
	p = p[:min(int64(len(p)), f.size-off)]
	n, err := f.file.ReadAt(p, off)
	if n == len(p) {
		return n, nil
	}
	if err == nil || errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF // somebody has truncated it
	}
	return n, &SpoolError{fmt.Errorf("at byte %d of %d: %w", off, f.size, err)}
}

// discard closes and removes the file.
func (f *tempFile) discard() {
	_ = f.file.Close()
	if f.named {
		_ = os.Remove(f.file.Name())
	}
	f.disk.used.Add(-f.size)
}

const pieceSize = 32 << 10

// pieces are buffers for filling files.
var pieces = sync.Pool{New: func() any { return new([pieceSize]byte) }}
