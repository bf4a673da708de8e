//go:build unix

package supervise

import (
	"fmt"
	"testing"
	"time"
)

// guarded runs a guard and returns where it kills, and its end.
func guarded() (lines chan string, killed chan int, end chan int) {
	lines, killed, end = make(chan string), make(chan int, 100), make(chan int, 1)
	go func() { end <- keep(lines, func(pgid int) { killed <- pgid }) }()
	return lines, killed, end
}

func until(d time.Duration) string { return fmt.Sprintf("until %d", monotonic()+d.Nanoseconds()) }

// The supervisor is gone: the group is killed at once.
func TestGuardLosesItsSupervisor(t *testing.T) {
	lines, killed, end := guarded()
	lines <- until(time.Hour)
	lines <- "group 42"
	close(lines)
	if <-end; len(killed) != 1 || <-killed != 42 {
		t.Error("the group lives")
	}
}

// The supervisor says nothing more: the group is killed at the last deadline, again and again.
func TestGuardHearsNothing(t *testing.T) {
	lines, killed, end := guarded()
	begin := time.Now()
	lines <- "group 42"
	lines <- until(time.Millisecond)
	lines <- until(50 * time.Millisecond) // a renewal
	for range 3 {
		if pgid := <-killed; pgid != 42 {
			t.Errorf("killed %d", pgid)
		}
	}
	if took := time.Since(begin); took < 50*time.Millisecond {
		t.Errorf("killed after %v", took)
	}
	lines <- "done"
	<-end
}

// All is over: nothing is killed, also without a group.
func TestGuardIsDone(t *testing.T) {
	lines, killed, end := guarded()
	lines <- "group 42"
	lines <- "done"
	<-end
	lines, others, end := guarded()
	lines <- until(-time.Second) // the gate was never opened
	close(lines)
	<-end
	if len(killed)+len(others) > 0 {
		t.Error("something was killed")
	}
}
