package httprule

import (
	"bytes"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"testing/iotest"
)

// TestSpool gives back what was written, in pieces of any size, on both sides of the border between memory and file.
func TestSpool(t *testing.T) {
	want := []byte(strings.Repeat("0123456789abcdefg", 10))
	for _, piece := range []int{1, 7, 64, 100, len(want)} {
		dir := &disk{dir: t.TempDir(), limit: 1 << 20}
		s := spool{room: 64, dir: dir}
		for i := 0; i < len(want); i += piece {
			if err := s.write(want[i:min(i+piece, len(want))]); err != nil {
				t.Fatal(err)
			}
		}
		if len(s.memory) != 64 || dir.used.Load() != int64(len(want)-64) {
			t.Errorf("pieces of %d: %d bytes in memory, %d in files", piece, len(s.memory), dir.used.Load())
		}
		if err := iotest.TestReader(s.reader(), want); err != nil {
			t.Errorf("pieces of %d: %v", piece, err)
		}
		if got, err := s.bytes(); !bytes.Equal(got, want) || err != nil {
			t.Errorf("pieces of %d: bytes() = %q, %v", piece, got, err)
		}
		s.discard()
		if left, err := os.ReadDir(dir.dir); len(left) > 0 || err != nil || dir.used.Load() != 0 || s.size != 0 {
			t.Errorf("after discard: %v, %v, %d bytes in files, size %d", left, err, dir.used.Load(), s.size)
		}
	}
}

// TestAllFilesTogetherHaveALimit: what does not fit is refused whole, and the room comes back.
func TestAllFilesTogetherHaveALimit(t *testing.T) {
	dir := &disk{dir: t.TempDir(), limit: 100}
	one, two := spool{room: 10, dir: dir}, spool{room: 10, dir: dir}
	if err := one.write(make([]byte, 80)); err != nil {
		t.Fatal(err)
	}
	var failed *SpoolError
	if err := two.write(make([]byte, 41)); !errors.Is(err, ErrSpoolFull) || !errors.As(err, &failed) || two.size != 0 {
		t.Errorf("error = %v, size = %d; want ErrSpoolFull and nothing", err, two.size)
	}
	if err := two.write(make([]byte, 40)); err != nil {
		t.Errorf("what fits: %v", err)
	}
	one.discard()
	if err := two.write(make([]byte, 70)); err != nil || two.size != 110 {
		t.Errorf("after discard: %v, size = %d", err, two.size)
	}
	two.discard()
}

// TestAFileThatIsCut is an error, and not the end of what was kept.
func TestAFileThatIsCut(t *testing.T) {
	s := spool{room: 10, dir: &disk{dir: t.TempDir(), limit: 1 << 20}}
	defer s.discard()
	if err := s.write(make([]byte, 100)); err != nil {
		t.Fatal(err)
	}
	if err := s.file.file.Truncate(50); err != nil {
		t.Fatal(err)
	}
	var failed *SpoolError
	if n, err := io.Copy(io.Discard, s.reader()); !errors.As(err, &failed) || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("%d bytes, %v; want a SpoolError", n, err)
	}
}
