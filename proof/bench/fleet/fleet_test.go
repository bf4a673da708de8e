package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if IsChild() {
		os.Exit(Serve(repeat))
	}
	// With the race detector a process sleeps for a second before it ends.
	os.Setenv("GORACE", "atexit_sleep_ms=0 "+os.Getenv("GORACE"))
	goleak.VerifyTestMain(m)
}

// repeat answers each message with itself, but fails on "fail".
func repeat(_ context.Context, messages <-chan json.RawMessage, answer func(any) error) error {
	for m := range messages {
		if string(m) == `"fail"` {
			return errors.New("told to fail")
		}
		if err := answer(m); err != nil {
			return err
		}
	}
	return nil
}

func start(t *testing.T, ctx context.Context) *Process {
	t.Helper()
	p, err := Start(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// ask sends a message and returns the answer.
func ask(t *testing.T, p *Process, message string) (answer string, err error) {
	t.Helper()
	if err := p.Send(message); err != nil {
		t.Fatal(err)
	}
	err = p.Receive(&answer)
	return answer, err
}

func TestChildAnswersUntilItIsClosed(t *testing.T) {
	p := start(t, t.Context())
	for _, message := range []string{"one", "two"} {
		if answer, err := ask(t, p, message); err != nil || answer != message {
			t.Errorf("%q, %v", answer, err)
		}
	}
	p.AskToEnd()
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}

func TestCloseSaysWhyTheChildFailed(t *testing.T) {
	p := start(t, t.Context())
	if _, err := ask(t, p, "fail"); err == nil {
		t.Error("it answered")
	}
	if err := p.Close(); err == nil || !strings.Contains(err.Error(), "told to fail") {
		t.Errorf("the error is %v", err)
	}
}

func TestChildEndsWithTheContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	p := start(t, ctx)
	if _, err := ask(t, p, "one"); err != nil {
		t.Error(err)
	}
	cancel()
	if err := p.Close(); err == nil {
		t.Error("it was not killed")
	}
	if err := syscall.Kill(p.cmd.Process.Pid, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("process %d is still there: %v", p.cmd.Process.Pid, err)
	}
}

// A child whose parent has gone sees the end of its input, whatever it is doing.
func TestServeEndsItsContextWithItsInput(t *testing.T) {
	in, out := os.Stdin, os.Stdout
	defer func() { os.Stdin, os.Stdout = in, out }()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	os.Stdin = read
	write.Close()
	code := Serve(func(ctx context.Context, _ <-chan json.RawMessage, _ func(any) error) error {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(10 * time.Second):
			t.Error("its context goes on")
			return nil
		}
	})
	if code != 0 {
		t.Errorf("the exit code is %d", code)
	}
}
