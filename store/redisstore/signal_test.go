//go:build unix

package redisstore_test

import (
	"context"
	"strings"
	"syscall"
	"testing"

	"github.com/keyturn/keyturn/internal/redistest"
)

// pause is kill -STOP; the process is killed as it is when the test ends.
func pause(t testing.TB, p *process) {
	t.Helper()
	signal(t, p, syscall.SIGSTOP)
	// The signal is on its way; without this, it could still run for a moment.
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(p.cmd.Process.Pid, &status, syscall.WUNTRACED, nil); err != nil || !status.Stopped() {
		t.Fatalf("the process does not stop: %v, %v", status, err)
	}
}

func resume(t testing.TB, p *process) {
	t.Helper()
	signal(t, p, syscall.SIGCONT)
}

func signal(t testing.TB, p *process, sig syscall.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(sig); err != nil {
		t.Fatal(err)
	}
}

// subscribers is the number of connections that listen for messages.
func subscribers(t testing.TB, server *redistest.Server) int {
	t.Helper()
	list, err := server.Client().Do(context.Background(), "client", "list", "type", "pubsub").Text()
	if err != nil {
		t.Fatal(err)
	}
	return strings.Count(list, "\n")
}
