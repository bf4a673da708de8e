package servertest_test

import (
	"bufio"
	"errors"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/keyturn/keyturn/internal/checktest"
	"github.com/keyturn/keyturn/internal/servertest"
)

var (
	must    = checktest.Must
	check   = checktest.That
	require = checktest.Require
	wantNil = checktest.WantNil
)

// Long enough for anything on this machine, for what should happen.
const patience = 5 * time.Second

// silence is how long a test waits for something that should not happen.
const silence = 50 * time.Millisecond

// echo is a server that answers every line with that line, and counts them.
type echo struct {
	addr  string
	heard atomic.Int64
}

func startEcho(t *testing.T) *echo {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	e := &echo{addr: l.Addr().String()}
	var running sync.WaitGroup
	t.Cleanup(func() { l.Close(); running.Wait() })
	running.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			running.Go(func() {
				defer conn.Close()
				r := bufio.NewReader(conn)
				for {
					line, err := r.ReadBytes('\n')
					if err != nil {
						return
					}
					e.heard.Add(1)
					if _, err := conn.Write(line); err != nil {
						return
					}
				}
			})
		}
	})
	return e
}

func dial(t *testing.T, addr string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	must(t, err)
	t.Cleanup(func() { conn.Close() })
	return conn
}

// say sends a line and returns the error of waiting for its echo.
func say(t *testing.T, conn net.Conn, line string, wait time.Duration) error {
	t.Helper()
	if _, err := conn.Write([]byte(line + "\n")); err != nil {
		return err
	}
	must(t, conn.SetReadDeadline(time.Now().Add(wait)))
	got, err := bufio.NewReader(conn).ReadString('\n')
	require(t, err != nil || got == line+"\n", "said %q, heard %q", line, got)
	return err
}

func wantTalk(t *testing.T, conn net.Conn) {
	t.Helper()
	err := say(t, conn, "hello", patience)
	require(t, err == nil, "the connection does not work: %v", err)
}

func wantSilence(t *testing.T, conn net.Conn) {
	t.Helper()
	err := say(t, conn, "anybody there", silence)
	require(t, errors.Is(err, os.ErrDeadlineExceeded), "got %v, want an open connection without an answer", err)
}

func wantClosed(t *testing.T, conn net.Conn) {
	t.Helper()
	err := say(t, conn, "hello", patience)
	require(t, err != nil && !errors.Is(err, os.ErrDeadlineExceeded), "got %v, want a closed connection", err)
}

// waitHeard waits until the server has heard n lines in all.
func waitHeard(t *testing.T, e *echo, n int64) {
	t.Helper()
	for end := time.Now().Add(patience); e.heard.Load() < n; time.Sleep(time.Millisecond) {
		require(t, time.Now().Before(end), "the server heard %d lines, want %d", e.heard.Load(), n)
	}
}

func TestProxyCutClosesOldAndNewConnections(t *testing.T) {
	p := servertest.NewProxy(t, startEcho(t).addr)
	conn := dial(t, p.Addr())
	wantTalk(t, conn)

	p.Cut()
	wantClosed(t, conn)
	wantClosed(t, dial(t, p.Addr()))

	p.Heal()
	wantTalk(t, dial(t, p.Addr()))
}

// proxied is a server, a proxy to it, and two connections that work.
func proxied(t *testing.T) (e *echo, p *servertest.Proxy, one, two net.Conn) {
	t.Helper()
	e = startEcho(t)
	p = servertest.NewProxy(t, e.addr)
	one, two = dial(t, p.Addr()), dial(t, p.Addr())
	wantTalk(t, one)
	wantTalk(t, two)
	return e, p, one, two
}

func TestProxyCutRepliesStillDelivers(t *testing.T) {
	e, p, broken, idle := proxied(t)
	p.CutReplies()
	wantSilence(t, broken)
	waitHeard(t, e, 3)

	p.Heal()
	wantClosed(t, broken) // its reply is gone, the next one would be taken for it
	wantTalk(t, idle)
}

func TestProxyBlackholeDeliversNothing(t *testing.T) {
	e, p, broken, idle := proxied(t)
	p.Blackhole()
	wantSilence(t, broken)
	wantSilence(t, dial(t, p.Addr()))
	heard := e.heard.Load()
	check(t, heard == 2, "the server heard %d lines, want the 2 from before", heard)

	p.Heal()
	wantClosed(t, broken)
	wantTalk(t, idle)
}

func TestProxyDelaysBytes(t *testing.T) {
	const d = 50 * time.Millisecond
	p := servertest.NewProxy(t, startEcho(t).addr)
	conn := dial(t, p.Addr())
	p.Delay(d)
	began := time.Now()
	wantTalk(t, conn)
	took := time.Since(began)
	check(t, took >= 2*d, "an answer after %v, want %v each way", took, d)
}

func TestProxyDeliversLateBytesOfAClosedConnection(t *testing.T) {
	e, p, late, other := proxied(t)
	p.DelayNext(300 * time.Millisecond)
	wantSilence(t, late)
	_ = late.Close()
	wantTalk(t, other)
	waitHeard(t, e, 4)
}

func TestProxyShunsOneClient(t *testing.T) {
	const other = "127.0.0.2"
	e := startEcho(t)
	p := servertest.NewProxy(t, e.addr)
	from := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(other)}}
	shunned, err := from.Dial("tcp", p.Addr())
	if err != nil {
		t.Skip("there is one loopback address here: ", err)
	}
	t.Cleanup(func() { shunned.Close() })
	conn := dial(t, p.Addr())
	wantTalk(t, shunned)

	p.Shun(other)
	wantSilence(t, shunned)
	wantTalk(t, conn)

	p.Heal()
	wantClosed(t, shunned)
	wantTalk(t, conn)
}
