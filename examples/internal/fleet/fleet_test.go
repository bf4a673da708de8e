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
	}
	goleak.VerifyTestMain(m)
}

// newFleet makes a fleet that says when a process ends that was not told to.
func newFleet() (*Fleet, <-chan error) {
	ended := make(chan error, 1)
	return New(func(err error) { ended <- err }), ended
}

func start1(t *testing.T, f *Fleet, role string, args ...string) (addr string, err error) {
	t.Helper()
	addr, _, err = f.Start(t.Context(), "the child", []string{"FLEET_TEST_ROLE=" + role}, args...)
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

func TestStartAndEnd(t *testing.T) {
	f, ended := newFleet()
	for _, arg := range []string{"a", "b"} {
		if addr, err := start1(t, f, "good", arg); addr != "here:"+arg || err != nil {
			t.Errorf("address %q, %v", addr, err)
		}
	}
	if err := f.Stop(); err != nil {
		t.Error(err)
	}
	if len(ended) > 0 {
		t.Errorf("an end that was asked for was reported: %v", <-ended)
	}
}

// TestFailures: each is reported once, with what the process said.
func TestFailures(t *testing.T) {
	for role, c := range map[string]struct{ start, stop, ended []string }{
		"does not start": {start: []string{"the child (pid ", "exit status 1", "no room"}},
		"never ready":    {start: []string{"the child is not ready"}},
		"deaf":           {stop: []string{"the child did not end and was killed"}},
		// Whether it is seen to be ready before it is seen to end is chance.
		"crashes": {ended: []string{"the child (pid ", "exit status 3", "oh no"}},
	} {
		f, ended := newFleet()
		switch role {
		case "never ready":
			f.startTimeout = 500 * time.Millisecond
		case "deaf":
			f.stopTimeout = 100 * time.Millisecond
		}
		if _, err := start1(t, f, role); c.start != nil {
			expect(t, err, c.start...)
		}
		if c.ended != nil {
			select {
			case err := <-ended:
				expect(t, err, c.ended...)
			case <-time.After(20 * time.Second):
				t.Fatal("nobody said that the process had ended")
			}
		}
		if err := f.Stop(); c.stop != nil {
			expect(t, err, c.stop...)
		} else if err != nil {
			t.Errorf("%s: reported twice: %v", role, err)
		}
	}
}
