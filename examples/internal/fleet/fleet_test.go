package fleet

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// The test binary is the program that starts itself again.
func TestMain(m *testing.M) {
	switch os.Getenv("FLEET_TEST_ROLE") {
	case "good":
		os.Exit(Child(func(ctx context.Context, ready func(string)) error {
			ready("here:" + strings.Join(os.Args[1:], ","))
			<-ctx.Done()
			return nil
		}))
	case "does not start":
		os.Exit(Child(func(context.Context, func(string)) error { return errors.New("no room") }))
	case "never ready":
		os.Exit(Child(func(ctx context.Context, _ func(string)) error {
			fmt.Fprintln(os.Stderr, "thinking")
			<-ctx.Done()
			return nil
		}))
	case "crashes":
		fmt.Println("here")
		fmt.Fprintln(os.Stderr, "oh no")
		os.Exit(3)
	case "deaf":
		fmt.Println("here")
		time.Sleep(time.Minute)
	case "bad end":
		os.Exit(Child(func(ctx context.Context, ready func(string)) error {
			ready("here")
			<-ctx.Done()
			return errors.New("could not tidy up")
		}))
	}
	goleak.VerifyTestMain(m)
}

func start1(t *testing.T, f *Fleet, role string, args ...string) (string, error) {
	t.Helper()
	addr, _, err := f.Start(t.Context(), "the child", []string{"FLEET_TEST_ROLE=" + role}, args...)
	return addr, err
}

func expect(t *testing.T, err error, want ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want %q in it", want)
	}
	for _, w := range want {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%q does not contain %q", err, w)
		}
	}
}

func TestStartAndStop(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	f := New(cancel)
	for _, arg := range []string{"a", "b"} {
		if addr, err := start1(t, f, "good", arg); addr != "here:"+arg || err != nil {
			t.Errorf("address %q, %v", addr, err)
		}
	}
	if err := f.Stop(); err != nil {
		t.Error(err)
	}
	if ctx.Err() != nil {
		t.Errorf("an end that was asked for was reported: %v", context.Cause(ctx))
	}
}

func TestDoesNotStart(t *testing.T) {
	f := New(func(error) {})
	_, err := start1(t, f, "does not start")
	expect(t, err, "the child (pid ", "exit status 1", "no room")
	if err := f.Stop(); err != nil {
		t.Errorf("reported twice: %v", err)
	}
}

func TestNeverReady(t *testing.T) {
	f := New(func(error) {})
	f.startTimeout = 500 * time.Millisecond
	_, err := start1(t, f, "never ready")
	expect(t, err, "the child is not ready")
	if err := f.Stop(); err != nil {
		t.Error(err)
	}
}

func TestCrash(t *testing.T) {
	ended := make(chan error, 1)
	f := New(func(err error) { ended <- err })
	// Whether it is seen to be ready before it is seen to end is chance.
	_, _ = start1(t, f, "crashes")
	select {
	case err := <-ended:
		expect(t, err, "the child (pid ", "exit status 3", "oh no")
	case <-time.After(20 * time.Second):
		t.Fatal("nobody said that the process had ended")
	}
	if err := f.Stop(); err != nil {
		t.Errorf("reported twice: %v", err)
	}
}

func TestKill(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	f := New(cancel)
	_, pid, err := f.Start(t.Context(), "the child", []string{"FLEET_TEST_ROLE=deaf"})
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Kill(pid); err != nil {
		t.Error(err)
	}
	expect(t, f.Kill(pid), "there is no process")
	if err := f.Stop(); err != nil {
		t.Error(err)
	}
	if ctx.Err() != nil {
		t.Errorf("an end that was asked for was reported: %v", context.Cause(ctx))
	}
}

func TestStopKills(t *testing.T) {
	f := New(func(error) {})
	f.stopTimeout = 100 * time.Millisecond
	if _, err := start1(t, f, "deaf"); err != nil {
		t.Fatal(err)
	}
	expect(t, f.Stop(), "the child did not end and was killed")
}
