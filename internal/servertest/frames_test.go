package servertest_test

import (
	"bufio"
	"bytes"
	"fmt"
	"testing"

	"github.com/keyturn/keyturn/internal/checktest"
	"github.com/keyturn/keyturn/internal/servertest"
)

// TestReplay: the server gets what was recorded once more, from somebody else.
func TestReplay(t *testing.T) {
	t.Parallel()
	e := startEcho(t)
	p := servertest.NewProxy(t, e.addr)
	p.Record(2, func(write []byte) bool { return bytes.Contains(write, []byte("eval")) })
	conn := dial(t, p.Addr())
	r := bufio.NewReader(conn)
	for _, line := range []string{"*eval 1", "*eval 2", "*get", "eval", "*eval 3"} {
		must(t, checktest.ErrorOf(fmt.Fprintln(conn, line)))
		must(t, checktest.ErrorOf(r.ReadString('\n')))
	}
	n, err := p.Replay()
	check(t, n == 2 && err == nil, "%d frames, %v", n, err)
	check(t, e.heard.Load() == 7, "the server heard %d lines", e.heard.Load())
	n, _ = p.Replay()
	check(t, n == 0, "%d frames a second time", n)
}
