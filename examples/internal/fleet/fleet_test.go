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
	}
	goleak.VerifyTestMain(m)
}

// What a process does wrong is told by Start, by Stop or, when it ends by itself, to New's function.
func TestRoles(t *testing.T) {
	for role, c := range map[string]struct{ start, ended, stop []string }{
		"good":           {},
		"does not start": {start: []string{"the child (pid ", "exit status 1", "no room"}},
		"never ready":    {start: []string{"the child is not ready"}},
		"crashes":        {ended: []string{"the child (pid ", "exit status 3", "oh no"}},
		"deaf":           {stop: []string{"the child did not end and was killed"}},
	} {
		t.Run(role, func(t *testing.T) {
			ended := make(chan error, 1)
			f := New(func(err error) { ended <- err })
			switch role {
			case "never ready":
				f.startTimeout = 500 * time.Millisecond
			case "deaf":
				f.stopTimeout = 100 * time.Millisecond
			}
			addr, _, err := f.Start(t.Context(), "the child", []string{"FLEET_TEST_ROLE=" + role}, "a", "b")
			if c.ended == nil { // otherwise chance decides whether it is seen to be ready before it is seen to end
				says(t, err, c.start)
			}
			if role == "good" && addr != "here:a,b" {
				t.Errorf("address %q", addr)
			}
			if c.ended != nil {
				select {
				case err := <-ended:
					says(t, err, c.ended)
				case <-time.After(20 * time.Second):
					t.Fatal("nobody said that the process had ended")
				}
			}
			says(t, f.Stop(), c.stop)
			if role == "good" && len(ended) > 0 {
				t.Errorf("an end that was asked for was reported: %v", <-ended)
			}
		})
	}
}

// says wants an error with these texts; without any, no error.
func says(t *testing.T, err error, texts []string) {
	t.Helper()
	if (err != nil) != (len(texts) > 0) {
		t.Fatalf("error %v, want %q in it", err, texts)
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("%q does not contain %q", err, text)
		}
	}
}

func TestKill(t *testing.T) {
	f := New(func(err error) { t.Errorf("an end that was asked for was reported: %v", err) })
	_, pid, err := f.Start(t.Context(), "the child", []string{"FLEET_TEST_ROLE=deaf"})
	says(t, err, nil)
	says(t, f.Kill(pid), nil)
	says(t, f.Kill(pid), []string{"there is no process"})
	says(t, f.Stop(), nil)
}
