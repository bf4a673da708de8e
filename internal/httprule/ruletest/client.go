package ruletest

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"
)

// Client is a client that speaks HTTP/1.1 as slowly as a test wants.
type Client struct {
	net.Conn
	t       testing.TB
	answers *bufio.Reader
}

// Dial connects to the server. Answers that the client does not read soon fill the buffers.
func (s *Site) Dial(t testing.TB) *Client {
	t.Helper()
	conn, err := net.Dial("tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.(*net.TCPConn).SetReadBuffer(64 << 10)
	_ = conn.SetDeadline(time.Now().Add(30 * time.Second)) // the test waits no longer than this
	t.Cleanup(func() { conn.Close() })
	return &Client{conn, t, bufio.NewReader(conn)}
}

// Say sends text; a line break becomes that of HTTP.
func (c *Client) Say(format string, args ...any) {
	c.t.Helper()
	if _, err := io.WriteString(c.Conn, strings.ReplaceAll(fmt.Sprintf(format, args...), "\n", "\r\n")); err != nil {
		c.t.Fatal(err)
	}
}

// Drip sends a byte every 100 ms until stop or the connection is closed. The channel then gives
// the number of bytes.
func (c *Client) Drip(b byte, stop <-chan struct{}) <-chan int {
	sent := make(chan int, 1)
	go func() {
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for n := 0; ; n++ {
			if _, err := c.Write([]byte{b}); err != nil {
				sent <- n
				return
			}
			select {
			case <-tick.C:
			case <-stop:
				sent <- n + 1
				return
			}
		}
	}()
	return sent
}

// Answer reads a response to its end, quickly.
func (c *Client) Answer() Answer {
	c.t.Helper()
	_ = c.Conn.(*net.TCPConn).SetReadBuffer(4 << 20)
	res, err := http.ReadResponse(c.answers, nil)
	if err != nil {
		c.t.Fatal(err)
	}
	return readAnswer(res)
}

// Spools watches the temporary files of the process.
type Spools struct {
	t   testing.TB
	dir string
}

// WatchSpools gives the test a directory for temporary files. At the end of the test it checks
// that no file is left, by name or by descriptor.
func WatchSpools(t *testing.T) *Spools {
	t.Helper()
	s := &Spools{t, t.TempDir()}
	// Otherwise the garbage collector would close a file that nobody closes.
	before := debug.SetGCPercent(-1)
	t.Cleanup(func() { debug.SetGCPercent(before) })
	t.Setenv("TMPDIR", s.dir)
	t.Cleanup(func() { Until(t, "the temporary files to go", func() bool { return s.Count() == 0 }) })
	return s
}

// Count is the number of temporary files. It finds those without a name only on Linux.
func (s *Spools) Count() int {
	s.t.Helper()
	names, err := os.ReadDir(s.dir)
	if err != nil {
		s.t.Fatal(err)
	}
	n := len(names)
	if runtime.GOOS != "linux" {
		return n
	}
	open, err := filepath.Glob("/proc/self/fd/*")
	if err != nil {
		s.t.Fatal(err)
	}
	for _, fd := range open {
		if target, err := os.Readlink(fd); err == nil && strings.HasPrefix(target, s.dir+"/") {
			n++
		}
	}
	return n
}
