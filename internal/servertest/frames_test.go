package servertest_test

import (
	"bufio"
	"bytes"
	"fmt"
	"testing"

	"github.com/keyturn/keyturn/internal/servertest"
	"github.com/keyturn/keyturn/internal/storetest"
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
		must(t, storetest.ErrorOf(fmt.Fprintln(conn, line)))
		must(t, storetest.ErrorOf(r.ReadString('\n')))
	}
	if n, err := p.Replay(); n != 2 || err != nil {
		t.Errorf("%d frames, %v", n, err)
	}
	if n := e.heard.Load(); n != 7 {
		t.Errorf("the server heard %d lines", n)
	}
	if n, _ := p.Replay(); n != 0 {
		t.Errorf("%d frames a second time", n)
	}
}
