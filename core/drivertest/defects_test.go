package drivertest

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
)

// TestModel is the negative control: a correct backend passes.
func TestModel(t *testing.T) {
	b := newBackend("")
	h := b.harness()
	h.Around = func(t *testing.T, test func(*testing.T)) {
		b.lose() // every bubble's clock begins at the same time
		synctest.Test(t, test)
	}
	Run(t, h)
}

func TestDefectsAreRejected(t *testing.T) {
	for _, control := range controls {
		t.Run(control.defect, func(t *testing.T) {
			for _, c := range checks() {
				if !slices.Contains(control.rejected, original(c.name)) {
					continue
				}
				t.Run(c.name, func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						failures := verdict(t, c, newBackend(control.defect).harness())
						if len(failures) == 0 {
							t.Error("passed")
						}
						for _, failure := range failures {
							t.Log(failure)
						}
					})
				})
			}
		})
	}
}

// TestEveryCheckRejects: a check that no control fails may not check anything.
func TestEveryCheckRejects(t *testing.T) {
	known, rejects := map[string]bool{}, map[string]bool{}
	for _, c := range checks() {
		if known[c.name] {
			t.Errorf("two checks are called %q", c.name)
		}
		known[c.name] = true
	}
	for _, control := range controls {
		for _, name := range control.rejected {
			if !known[name] {
				t.Errorf("%q is to be rejected by %q, which does not exist", control.defect, name)
			}
			rejects[name] = true
		}
	}
	for name := range known {
		if !rejects[original(name)] {
			t.Errorf("nothing is rejected by %q", name)
		}
	}
}

// verdict makes one check and returns its complaints.
func verdict(t *testing.T, c check, h Harness) []string {
	judge := &standIn{TB: t}
	h = h.withDefaults(h.New(judge).Describe())
	h.takesTime = false // the caller is in a bubble
	done := make(chan struct{})
	go func() { // a check may end by ending its goroutine
		defer close(done)
		c.run(newScene(judge, h, c))
	}()
	<-done
	return judge.complaints
}

// standIn takes a test's complaints, so that they fail nothing.
type standIn struct {
	testing.TB
	mu         sync.Mutex
	complaints []string
}

func (j *standIn) Errorf(format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.complaints = append(j.complaints, fmt.Sprintf(format, args...))
}

func (j *standIn) Fatalf(format string, args ...any) {
	j.Errorf(format, args...)
	runtime.Goexit()
}

func (j *standIn) Fatal(args ...any) { j.Fatalf("%s", fmt.Sprint(args...)) }

func (j *standIn) Failed() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.complaints) > 0
}
