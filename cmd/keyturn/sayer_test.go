package main

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/store/memstore"
)

// Nobody waits for a reader, also not the end of the words about a wait. What finds no room is counted, and the rest keeps
// its order, which it had not when each message had a goroutine.
func TestSayerWithoutAReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // a call without an end would be a deadlock
		eng, err := core.New(memstore.New())
		must(t, err)
		read, write := io.Pipe()
		a := &app{stderr: newSayer(write)}
		stop := a.progress(t.Context(), eng, []string{"k"})
		time.Sleep(2 * progressAfter) // so it is saying something
		stop()
		var want strings.Builder
		for n := range mostTexts + 2 {
			if fmt.Fprintln(a.stderr, n); n < mostTexts-1 { // one place has the question of stop
				fmt.Fprintln(&want, n)
			}
		}
		a.stderr.flush(lastWords)
		go func() { a.stderr.end(); _ = write.Close() }()
		got, err := io.ReadAll(read)
		check(t, err == nil && strings.HasPrefix(string(got), "keyturn: waiting for k") && strings.HasSuffix(string(got), "s\n"+want.String()+"keyturn: nobody read the messages, so 3 more were dropped\n"), "%v: %s", err, got)
		must(t, eng.Close(t.Context()))
	})
}
