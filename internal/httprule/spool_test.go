package httprule

import (
	"bytes"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/keyturn/keyturn/internal/checktest"
)

// TestSpool gives back what was written, in pieces of any size, on both sides of the border between memory and file.
func TestSpool(t *testing.T) {
	want := []byte(strings.Repeat("0123456789abcdefg", 10))
	for _, piece := range []int{1, 7, 64, 100, len(want)} {
		dir := &disk{dir: t.TempDir(), limit: 1 << 20}
		s := spool{room: 64, dir: dir}
		for i := 0; i < len(want); i += piece {
			checktest.Must(t, s.write(want[i:min(i+piece, len(want))]))
		}
		memory, files := len(s.memory), dir.used.Load()
		checktest.That(t, memory == 64 && files == int64(len(want)-64), "pieces of %d: %d bytes in memory, %d in files", piece, memory, files)
		err := iotest.TestReader(&spoolReader{spool: &s}, want)
		checktest.That(t, err == nil, "pieces of %d: %v", piece, err)
		got, err := s.bytes()
		checktest.That(t, bytes.Equal(got, want) && err == nil, "pieces of %d: bytes() = %q, %v", piece, got, err)
		s.discard()
		left, err := os.ReadDir(dir.dir)
		files = dir.used.Load()
		checktest.That(t, len(left) == 0 && err == nil && files == 0 && s.size == 0, "after discard: %v, %v, %d bytes in files, size %d", left, err, files, s.size)
	}
}

// TestAllFilesTogetherHaveALimit: what does not fit is refused whole, and the room comes back.
func TestAllFilesTogetherHaveALimit(t *testing.T) {
	dir := &disk{dir: t.TempDir(), limit: 100}
	one, two := spool{room: 10, dir: dir}, spool{room: 10, dir: dir}
	checktest.Must(t, one.write(make([]byte, 80)))
	var failed *SpoolError
	err := two.write(make([]byte, 41))
	checktest.That(t, errors.Is(err, ErrSpoolFull) && errors.As(err, &failed) && two.size == 0, "error = %v, size = %d; want ErrSpoolFull and nothing", err, two.size)
	checktest.WantIs(t, "what fits", two.write(make([]byte, 40)), nil)
	one.discard()
	err = two.write(make([]byte, 70))
	checktest.That(t, err == nil && two.size == 110, "after discard: %v, size = %d", err, two.size)
	two.discard()
}

// TestAFileThatIsCut is an error, and not the end of what was kept.
func TestAFileThatIsCut(t *testing.T) {
	s := spool{room: 10, dir: &disk{dir: t.TempDir(), limit: 1 << 20}}
	defer s.discard()
	checktest.Must(t, s.write(make([]byte, 100)))
	checktest.Must(t, s.file.file.Truncate(50))
	var failed *SpoolError
	n, err := io.Copy(io.Discard, &spoolReader{spool: &s})
	checktest.That(t, errors.As(err, &failed) && errors.Is(err, io.ErrUnexpectedEOF), "%d bytes, %v; want a SpoolError", n, err)
}
