package httprule

import "io"

// inMemory is how many bytes of a body, and as many of a response, are kept in memory. The rest
// goes to a temporary file.
const inMemory = 64 << 10

// spool keeps bytes: the first ones in memory, the rest in a temporary file. It belongs to one goroutine, and its owner
// must call discard.
type spool struct {
	memory []byte
	room   int       // the maximum size of memory
	dir    *disk     // for the file
	file   *tempFile // the bytes after memory; nil: none
	size   int64     // the size of memory and file
}

// write adds all of p, or nothing and a *SpoolError.
func (s *spool) write(p []byte) (err error) {
	first := p[:min(len(p), max(0, s.room-len(s.memory)))]
	if rest := p[len(first):]; len(rest) > 0 {
		if s.file == nil {
			if s.file, err = s.dir.create(); err != nil {
				return err
			}
		}
		if err := s.file.add(rest); err != nil {
			return err
		}
	}
	s.memory = append(s.memory, first...)
	s.size += int64(len(p))
	return nil
}

// readAt fills p from offset off on. At the end it returns 0.
func (s *spool) readAt(p []byte, off int64) (int, error) {
	switch {
	case off >= s.size:
		return 0, nil
	case off < int64(len(s.memory)):
		return copy(p, s.memory[off:]), nil
	}
	return s.file.read(p, off-int64(len(s.memory)))
}

// bytes returns everything. The spool may own the slice.
func (s *spool) bytes() ([]byte, error) {
	if s.file == nil {
		return s.memory, nil
	}
	all := make([]byte, s.size)
	n := copy(all, s.memory)
	_, err := io.ReadFull(&spoolReader{spool: s, next: int64(n)}, all[n:])
	return all, err
}

// discard frees memory and file. A later write begins anew.
func (s *spool) discard() {
	if s.file != nil {
		s.file.discard()
	}
	*s = spool{room: s.room, dir: s.dir}
}

// spoolReader is a position in a spool.
type spoolReader struct {
	spool *spool
	next  int64
}

// Read implements io.Reader.
func (r *spoolReader) Read(p []byte) (int, error) {
	n, err := r.spool.readAt(p, r.next)
	r.next += int64(n)
	if n == 0 && err == nil && len(p) > 0 {
		err = io.EOF
	}
	return n, err
}
